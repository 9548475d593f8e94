"""Which of its devices llama.cpp runs on: those of --device, or one of them where a model is not split."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from service.domain.commands.reading import shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood

_DEVICE = re.compile(r"(CUDA|ROCm|HIP|Vulkan|SYCL|MUSA|Metal|MTL|CANN|OpenCL)(\d{1,3})", re.ASCII | re.IGNORECASE)
_LISTS = ("gpus", "gpus_memory_bytes")


def settle_devices(found: Understood) -> None:
    """Settle --split-mode, --device and --main-gpu; `_chosen` is left with the numbers of the devices that are used."""
    mode, named, main = (found.take(name) for name in ("_split", "_device", "_main"))
    spellings = {name: found.said_by.pop(name, "") for name in ("_split", "_device", "_main")}
    numbers = None if named is None else _numbers(found, spellings["_device"], str(named))
    if mode not in {None, "none", "layer"}:
        found.refuse(f"{spellings['_split']} {mode!r} is not modelled: only layer and none are.")
    if mode == "none":
        numbers = _main_alone(found, numbers, main or 0, spellings["_main"])
        found.put("gpu_count", 1, spellings["_split"])
        found.said_by["_chosen"] = spellings["_main"]
    elif numbers:
        found.put("gpu_count", len(numbers), spellings["_device"])
    if numbers:
        found.settings["_chosen"] = numbers
    idle = [spellings["_split"] if mode == "layer" else "", spellings["_main"] if mode != "none" else ""]
    for spelling in filter(None, idle):
        found.ignore(spelling)


def _numbers(found: Understood, spelling: str, text: str) -> list[int] | None:
    """The devices of a list such as CUDA0,CUDA1 by their numbers."""
    if text.casefold() == "none":
        found.refuse(f"{spelling} none leaves everything on the host, so that there is nothing to quote.")
        return None
    matched = [_DEVICE.fullmatch(part.strip()) for part in text.split(",")]
    kinds = {each[1].casefold() for each in matched if each}
    if None in matched or len(kinds) != 1:
        found.refuse(f"{spelling} {shown(text)} is not modelled: only devices of one kind are, such as CUDA0,CUDA1.")
        return None
    numbers = [int(each[2]) for each in matched if each]
    if len(set(numbers)) < len(numbers):
        found.fail(f"{spelling} {shown(text)} names a device twice.")
    return numbers


def _main_alone(found: Understood, numbers: list[int] | None, main: int, spelling: str) -> list[int] | None:
    if numbers is None:
        return [main] if main >= 0 else None
    if not 0 <= main < len(numbers):
        found.fail(f"{spelling} {main} is none of the {len(numbers)} devices.")
        return None
    return [numbers[main]]


def with_chosen(found: Understood, beside: Mapping[str, Any], visible: int | None) -> Mapping[str, Any]:
    """The names beside a command with only the listed cards that its devices are, each by its number."""
    numbers, main = found.take("_chosen"), found.said_by.pop("_chosen", "")
    sizes = [len(beside[name]) for name in _LISTS if beside.get(name)]
    seen = min(sizes) if sizes else visible
    if sizes and visible is not None and visible < min(sizes):
        found.fail(f"The command shows {visible} of the {min(sizes)} GPUs that are listed: list those alone.")
        return beside
    if numbers and seen is not None and max(numbers) >= seen:
        found.fail(f"The command runs on device {max(numbers)}, and there are {seen}, numbered from 0.")
        return beside
    if numbers and sizes and numbers != list(range(seen or 0)):
        by = f" ({main})" if main else ""
        found.notes.append(f"of the {seen} GPUs the command uses {', '.join(map(str, numbers))}{by}")
        beside = {**beside, **{name: [beside[name][at] for at in numbers] for name in _LISTS if beside.get(name)}}
    elif main:
        # Of cards that are alike it makes no difference which one it is.
        found.ignore(main)
    _as_many_shares(found, len(numbers) if numbers else seen)
    return beside


def _as_many_shares(found: Understood, count: int | None) -> None:
    """As the engine does: devices without a share hold nothing, and shares without a device are not used."""
    split = found.settings.get("tensor_split")
    if split is None or count is None or len(split) == count:
        return
    found.settings["tensor_split"] = [*split, *[0] * count][:count]
    found.notes.append(f"{len(split)} shares of the command are for {count} devices: others have none, or are not used")
