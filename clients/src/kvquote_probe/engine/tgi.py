"""text-generation-inference: `max_batch_total_tokens` of /info up to 2.2, the gauge `tgi_batch_max_total_tokens` since.

The router measures it with a real prefill when it starts. For models without flash attention it is a constant, which
says nothing about the card.
"""

from __future__ import annotations

from kvquote_probe.engine.figures import number_format, whole
from kvquote_probe.engine.metrics import samples
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told, nothing_told, reading
from kvquote_probe.names import model_name
from kvquote_probe.readings import Reading

NAME = "tgi"
_GAUGE = "tgi_batch_max_total_tokens"
_CONSTANT = 16_000


def read(site: Site, given: Told) -> list[Reading]:
    """One reading. Raises EngineError."""
    info = site.named("/info")
    tokens = whole(info.get("max_batch_total_tokens")) or _of_gauge(site)
    if tokens is None:
        raise nothing_told("TGI", f"neither its /info nor the gauge {_GAUGE} of its /metrics has it")
    if tokens == _CONSTANT:
        raise EngineError(f"It tells {_CONSTANT:,} tokens, what TGI says of any model that it runs without paging.")
    setup = {
        "model": model_name(info.get("model_id")).model,
        "weight_dtype": number_format(info.get("model_dtype")),
        "context_limit_tokens": whole(info.get("max_total_tokens")),
    }
    return [reading(NAME, info.get("version"), {"kv_capacity_tokens": tokens}, setup, given)]


def _of_gauge(site: Site) -> int | None:
    found = samples(site.text("/metrics"), (_GAUGE,))
    return whole(found[0].value) if len(found) == 1 else None
