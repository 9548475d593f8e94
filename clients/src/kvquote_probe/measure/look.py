"""`device`: what the driver and torch say of the device, and what a process costs there before it keeps anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from kvquote_probe.commands import Say
from kvquote_probe.measure import smi
from kvquote_probe.measure.device import Cpu, Cuda, Device, opened


def look(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:  # noqa: ARG001  # as all experiments are called
    """The experiment: the device's facts, and `gpu` and `software` of the rows that all measurements share."""
    free_beside = _beside(arguments)
    device = opened(arguments)
    _open_context(device)
    free, total = device.memory()
    beside = free_beside()
    card = device.card()
    context = max(0, free - beside) if beside is not None else None
    context = device.held_bytes() if isinstance(device, Cpu) else context
    values = {
        "total_bytes": total,
        "free_bytes": free,
        "context_bytes": context,
        "nvml_total_bytes": card.nvml_total_bytes,
        "memory_kind": _memory_kind(device),
        "held_by_others_bytes": smi.held_by_others(device.identity(), (os.getpid(), os.getppid())),
        "last_level_cache_bytes": device.cache_bytes() or None,
        **card._asdict(),
        **_nominal(device),
    }
    del values["driver"]
    return {"values": values, "gpu": device.gpu(), "software": device.software(), "kind": device.kind}


def _beside(arguments: Mapping[str, Any]) -> Callable[[], int | None]:
    """A second process, forked before this one opens the device; called, it opens it too and says what is free then.

    What its context takes is what ours takes: drivers say it in many ways, and containers hide whose memory is whose.
    """
    go, begin = os.pipe()
    said, say = os.pipe()
    process = os.fork()
    if not process:
        os.close(begin)
        _answer(arguments, go, say)
    os.close(say)
    os.close(go)

    def ask() -> int | None:
        os.write(begin, b".")
        answer = os.read(said, 64)
        os.waitpid(process, 0)
        return int(answer) if answer else None

    return ask


def _answer(arguments: Mapping[str, Any], go: int, say: int) -> NoReturn:
    """Wait for the word, or for the end of the experiment; whatever happens, leave without its farewells."""
    try:
        if os.read(go, 1):
            device = opened(arguments)
            _open_context(device)
            os.write(say, json.dumps(device.memory()[0]).encode())
    finally:
        os._exit(0)


def _open_context(device: Device) -> None:
    """A small multiplication: the context, and the libraries that every engine loads into it."""
    import torch

    square = torch.ones(64, 64, device=device.place)
    (square @ square).sum().item()
    device.synchronize()


def _memory_kind(device: Device) -> str:
    if isinstance(device, Cuda):
        return "unified" if device.unified else "device"
    return "host"


def _nominal(device: Device) -> dict[str, Any]:
    """What the driver's own figures say that the memory can do at most (probe 2.2); absent where it gives none."""
    if not isinstance(device, Cuda):
        return {}
    import torch

    properties = torch.cuda.get_device_properties(device.place)
    kilohertz, bits = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    return {
        "multiprocessors": properties.multi_processor_count,
        "nominal_bytes_per_second": 2 * kilohertz * 1000 * bits / 8 if kilohertz and bits else None,
    }
