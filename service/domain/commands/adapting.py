"""What flags of adapters (LoRA) say together: how many slots of which rank, and what would change them otherwise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.domain.engines.vllm.adapter_rules import DEFAULT_RANK

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.engines import ServingEngine

_UNMODELLED: Mapping[str, str] = {
    "_lora_words": "rows for other numbers of added words",
    "_lora_targets": "slots for some matrices alone",
    "_lora_lengths": "tables of longer positions",
    "_lora_bias": "slots for biases",
    "_lora_towers": "slots in encoders",
    "_lora_graphs": "graphs for several numbers of adapters",
}
_NAMED: Final = (("max_loras", "_loras", 1), ("max_lora_rank", "_lora_rank", DEFAULT_RANK))
"""Names of a question with the flags that set them and the engine's defaults."""
_SPOKEN = ("_adapters", "_loras", "_lora_rank", "_host_loras", "_lora_sharded", "_lora_files", *_UNMODELLED)
"""Every name that a flag of adapters sets here, in the order in which they are listed."""


def settle_adapters(found: Understood, engine: ServingEngine) -> None:
    """Slots are kept only where adapters are enabled, by a flag or by `max_loras` beside them.

    What else is said of them does not matter then.
    """
    values, said = found.take_all(_SPOKEN)
    if not values.get("_adapters") and not found.known("max_loras"):
        _without_slots(found, said)
        return
    for name, why in _UNMODELLED.items():
        if values.get(name):
            found.refuse(f"{said[name]} changes what memory holds and is not modelled: {why}.")
    _slots(found, engine, said, values)


def _without_slots(found: Understood, said: Mapping[str, str]) -> None:
    for name, spelling in said.items():
        if name == "_lora_files":
            found.fail(f"{spelling} loads adapters, for which the engine does not start without --enable-lora.")
        else:
            found.ignore(spelling)


def _slots(found: Understood, engine: ServingEngine, said: Mapping[str, str], values: Mapping[str, Any]) -> None:
    """Put the slots of an engine that has them, and list what does not change them."""
    enabling = said.get("_adapters", "")
    if "max_loras" not in engine.takes:
        found.refuse(f"{enabling} keeps room for adapters, which is not modelled for {engine.name} yet.")
        return
    for name, own, default in _NAMED:
        # What a field says stands unless a flag of its own says it too: then the two have to agree.
        if own in said or (enabling and name not in found.beside):
            found.put(name, default if values.get(own) is None else values[own], said.get(own, enabling))
    if enabling and all(name in found.beside for name, _, _ in _NAMED):
        found.ignore(enabling)
    host, count = values.get("_host_loras"), found.known("max_loras")
    if host is not None and host < count:
        found.fail(f"{said['_host_loras']} {host} is below the {count} adapters of a batch, which the host holds too.")
    _sharded(found, engine, said, sharded=bool(values.get("_lora_sharded")))
    for name in ("_host_loras", "_lora_files", *_UNMODELLED):
        if name in said:
            found.ignore(said[name])


def _sharded(found: Understood, engine: ServingEngine, said: Mapping[str, str], *, sharded: bool) -> None:
    """Both factors divided over ranks, which one rank has whole all the same."""
    spelling = said.get("_lora_sharded")
    if spelling is None:
        return
    if not sharded or found.known("tensor_parallel", 1) == 1:
        found.ignore(spelling)
    elif "fully_sharded_loras" in engine.takes:
        found.put("fully_sharded_loras", value=True, spelling=spelling)
    else:
        found.refuse(f"{spelling} is not modelled: both factors of adapters divided over ranks.")
