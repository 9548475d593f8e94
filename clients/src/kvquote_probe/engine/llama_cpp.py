"""llama.cpp's server: /props, which tells the context of a slot and the number of slots.

Slots either split the context (all builds before mid-2025, and --no-kv-unified) or share it (--kv-unified, the default
with an automatic number of slots since late 2025), and /props does not say which. With one slot it makes no difference.
Bytes of the cache are in the log alone.
"""

from __future__ import annotations

import re
from typing import Any

from kvquote_probe.engine.figures import whole
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told, nothing_told, reading
from kvquote_probe.names import ModelName, model_name
from kvquote_probe.readings import Reading

NAME = "llama.cpp"
_MOST_SLOTS = 2**16
_FIRST_UNIFIED_BUILD = 5800
"""A little before slots could share a cache (pull request 14363, July 2025)."""

_build = re.compile(r"b?(\d{1,6})(?:-|$)").match


def read(site: Site, given: Told) -> list[Reading]:
    """One reading: the cells of its cache. Raises EngineError."""
    props = site.named("/props")
    settings = props.get("default_generation_settings")
    per_slot = whole(settings.get("n_ctx")) if isinstance(settings, dict) else None
    slots = whole(props.get("total_slots"), _MOST_SLOTS)
    if per_slot is None or slots is None:
        raise nothing_told("llama.cpp", "its /props has no n_ctx and total_slots")
    if props.get("is_sleeping") is True:
        raise EngineError("This llama.cpp server is asleep and holds no cache: send it a request first.")
    cells = per_slot if slots == 1 or _shares(props, slots, per_slot, given) else per_slot * slots
    name = _model(site, props)
    setup = {
        "model": name.model,
        "weight_dtype": name.weight_dtype,
        "context_limit_tokens": cells,
        "parallel_slots": slots,
    }
    return [reading(NAME, props.get("build_info"), {"kv_capacity_tokens": cells}, setup, given)]


def _shares(props: dict[str, Any], slots: int, per_slot: int, given: Told) -> bool:
    """Whether the slots share one cache. Raises EngineError where nobody says."""
    if given.unified is not None:
        return given.unified
    build = props.get("build_info")
    found = _build(build) if isinstance(build, str) else None
    if found and int(found[1]) < _FIRST_UNIFIED_BUILD:
        return False
    raise EngineError(
        f"Its {slots} slots of {per_slot:,} tokens either share one cache or have their own, and it does not say "
        "which: say --kv-unified or --no-kv-unified, as its log has it (`n_slots = …, kv_unified = …`)."
    )


def _model(site: Site, props: dict[str, Any]) -> ModelName:
    found = model_name(props.get("model_path"))
    models = site.optional("/v1/models").get("data") if found.model is None else None
    first = models[0] if isinstance(models, list) and models and isinstance(models[0], dict) else {}
    return model_name(first["id"]) if "id" in first else found
