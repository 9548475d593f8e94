"""Whether all layers of a model cache alike, asked of the service."""

from __future__ import annotations

from typing import Any, Protocol
from urllib.parse import quote

from kvquote_client.errors import KvquoteError

_UNIFORM = frozenset({"full", "latent"})


class Asked(Protocol):
    """What sends a request: `kvquote_client.Transport`."""

    def request(self, method: str, path: str) -> Any:  # noqa: ANN401 - a reply with a `body` of JSON
        """The answer below 400, else an error of `kvquote_client`."""


def is_uniform(asked: Asked, model: str) -> bool | None:
    """True where every layer that caches keeps all tokens in the same way; None where the service does not know."""
    try:
        body = asked.request("GET", f"/models/{quote(model, safe='/')}").body
    except KvquoteError:
        return None
    layers = body.get("cache_layers") if isinstance(body, dict) else None
    if not isinstance(layers, list) or not layers:
        return None
    kinds = {(one.get("kind"), one.get("kv_heads"), one.get("key_width"), one.get("value_width")) for one in layers}
    return len(kinds) == 1 and next(iter(kinds))[0] in _UNIFORM
