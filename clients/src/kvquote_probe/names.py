"""Texts that may leave the machine: names that somebody published, never a path, an address or an identity.

What an engine is started with is often a folder. Its last component is taken for a model's name only where it looks
like one that was published: it says how many parameters the model has, as hub names do. So is a name without an owner,
which may be a folder as well. Anything else becomes null, since a folder called after a customer or a person says more
than a measurement needs; whoever starts the probe can say the name.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MOST_CHARACTERS = 200

_leaks = re.compile(r"(?:^|[\s=\"',:])(?:~|\.{1,2})?/\S|(?:^|[\s=\"'])[A-Za-z]:\\|\\\\|://").search
_identity = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|@\w", re.IGNORECASE).search
_hub_id = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}").fullmatch
_bare = re.compile(r"[A-Za-z0-9][\w.-]{1,95}").fullmatch
# 7b, 0.5B, 270m, 8x22b, 30b-a3b, e4b: between separators, as hub names have it.
_size = re.compile(r"(?:^|[-_.])(?:e|a)?(?:\d+x)?\d+(?:\.\d+)?[bm](?:[-_.]|$)", re.IGNORECASE).search
_cached = re.compile(r"models--([A-Za-z0-9][\w.-]*?)--([A-Za-z0-9][\w.-]*)$").fullmatch
_shard = re.compile(r"-\d{5}-of-\d{5}$")
_gguf = re.compile(
    r"[-.](?P<format>(?:U?D-)?(?:I?Q\d(?:_[0-9KSMLX]+)*(?:_NL|_XXS|_XS)?|BF16|F16|F32|MXFP4(?:_MOE)?))$", re.IGNORECASE
)
# First components of relative paths that hub organisations are not called.
_FOLDERS = frozenset(
    {"models", "model", "weights", "checkpoints", "checkpoint", "ckpt", "data", "tmp", "home", "mnt", "opt", "srv"}
    | {"root", "workspace", "cache", "hf", "snapshots"}
)


class ModelName(NamedTuple):
    """A published name, and the number format where a file's name carries it."""

    model: str | None
    weight_dtype: str | None = None


def model_name(given: object) -> ModelName:
    """The published name in what an engine calls its model; a null one where that is a path of somebody's own."""
    if not isinstance(given, str) or not given or len(given) > 4096 or not given.isprintable():  # noqa: PLR2004 - PATH_MAX
        return ModelName(None)
    text = given.strip().rstrip("/")
    if "://" in text or _identity(text):
        return ModelName(None)
    if text.lower().endswith(".gguf"):
        return _file_name(text)
    if _hub_id(text) and text.partition("/")[0].lower() not in _FOLDERS:
        return ModelName(text)
    return ModelName(_from_path(re.split(r"[/\\]+", text)))


def _from_path(steps: list[str]) -> str | None:
    for step in reversed(steps):
        found = _cached(step)
        if found:
            return f"{found[1]}/{found[2]}"
    last = steps[-1]
    return last if _bare(last) and _size(last) else None


def _file_name(path: str) -> ModelName:
    stem = _shard.sub("", re.split(r"[/\\]+", path)[-1][: -len(".gguf")])
    found = _gguf.search(stem)
    name = stem[: found.start()] if found else stem
    if not (_bare(name) and _size(name)):
        return ModelName(None)
    return ModelName(name, found["format"].lower().removeprefix("ud-") if found else None)


def plain_text(given: object) -> str | None:
    """A short text that names no machine, else null."""
    if isinstance(given, bool) or not isinstance(given, (str, int, float)):
        return None
    text = str(given).strip()
    return text if 0 < len(text) <= MOST_CHARACTERS and is_plain(text) else None


def is_plain(text: str) -> bool:
    """Whether a text is printable and holds no path, address or identity."""
    return text.isprintable() and _leaks(text) is None and _identity(text) is None


def scrubbed(value: Any) -> Any:  # noqa: ANN401 - JSON in, JSON out
    """The same JSON with every text that is not plain replaced by null, entry by entry."""
    if isinstance(value, str):
        return value if is_plain(value) else None
    if isinstance(value, dict):
        return {name: scrubbed(inner) for name, inner in value.items() if is_plain(name)}
    if isinstance(value, (list, tuple)):
        return [scrubbed(inner) for inner in value]
    return value
