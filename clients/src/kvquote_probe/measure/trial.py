"""One attempt at a ceiling: a model's weights and a cache for so many sequences, within a share of the memory.

The experiment of a process of its own. `allocation` asks for the memory alone, in whatever types; `step` builds layers
that multiply, and runs a whole decode step, head and pick among them.
"""

from __future__ import annotations

import ctypes
import resource
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.blocks import LayerPlan
from kvquote_probe.measure.cache import Part, allocated
from kvquote_probe.measure.device import (
    Cpu,
    Device,
    has_no_kernel,
    is_out_of_memory,
    opened,
    refuse_if_used,
    refuse_slow_attention,
    touch,
)
from kvquote_probe.measure.layer import Layer, Tensor, spread, weight

_HEAP_FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"


def attempt(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:  # noqa: ARG001  # as all experiments are called
    """The experiment: whether `sequences` fit, and what the allocator counted."""
    import torch

    torch.manual_seed(0)
    warnings.simplefilter("ignore")  # kernels that find no room say so at length before torch tries another
    device = opened(arguments)
    refuse_if_used(device, shared=bool(arguments.get("shared")))
    refuse_slow_attention(device)
    _warm(device)
    _cap(device, arguments)
    kept: list[Tensor] = []
    work: Callable[..., None] = _step if arguments["limit"] == "step" else _allocate
    failure = None
    try:
        with torch.inference_mode():
            work(arguments, device, kept)
            device.synchronize()
    except (RuntimeError, MemoryError) as error:
        if has_no_kernel(error):
            raise MeasureError("torch has no fused attention for these heads in this type on this card.") from error
        if not is_out_of_memory(error):
            raise
        failure = type(error).__name__
    # The error is gone here, and with it the frames that would keep tensors alive.
    return {"passed": failure is None, "failure": failure, "counters": device.counters(), **_retries(device)}


def _allocate(arguments: Mapping[str, Any], device: Device, kept: list[Tensor]) -> None:
    """Weights layer by layer as their modules have them, then the cache; every page is written to."""
    for layer in arguments["weights"]:
        for torch_name, elements in layer:
            kept.append(_storage(elements, torch_name, device))
    for given in arguments["parts"]:
        for tensor in allocated(Part.from_arguments(given), arguments["sequences"], device.place):
            touch(tensor)
            kept.append(tensor)


def _storage(elements: int, torch_name: str, device: Device) -> Tensor:
    import torch

    made = torch.empty(elements, dtype=getattr(torch, torch_name), device=device.place)
    touch(made)
    return made


def _step(arguments: Mapping[str, Any], device: Device, kept: list[Any]) -> None:
    """A whole decode step; the model is built anew for every attempt, as an engine does when it starts."""
    import torch

    kind, sequences, context = (
        getattr(torch, arguments["torch_type"]),
        arguments["sequences"],
        arguments["context_tokens"],
    )
    plans = [LayerPlan.from_arguments(given) for given in arguments["plans"]]
    vocabulary, hidden_size = arguments["vocabulary_size"], plans[0].hidden_size
    tables = [weight(vocabulary, hidden_size, kind, device.place) for _ in range(1 if arguments["tied"] else 2)]
    kept.append(tables)
    for plan in plans:
        elements = sequences * plan.attention.tokens_held(context) * plan.cache_elements
        for number in range(plan.layers):
            owns = number < plan.layers - plan.sharers
            made = Layer(
                plan, kind, device.place, cache_elements=elements if owns else 0, experts_kept=plan.feed_forward.experts
            )
            if owns:
                touch(made.cache)
            else:
                made.cache = kept[-1][0].cache
            kept.append((made, plan))
    if sequences:
        spreads = {plan: _spread(plan, sequences, device) for plan in plans}
        hidden = tables[0][torch.randint(vocabulary, (sequences,), device=device.place)]
        for made, plan in kept[1:]:
            hidden = made.decode(hidden, context, spreads[plan])
        # Engines sample from 32-bit scores.
        (hidden @ tables[-1].t()).float().softmax(-1).argmax(-1)


def _spread(plan: LayerPlan, sequences: int, device: Device) -> Tensor | None:
    import torch

    if not plan.feed_forward.experts:
        return None
    return torch.tensor(spread(plan.feed_forward, sequences).tokens, device=device.place)


def _warm(device: Device) -> None:
    """What libraries take once is taken before the memory is capped."""
    import torch

    if isinstance(device, Cpu):
        torch.set_num_threads(1)  # each thread would reserve an arena of its own
    square = torch.ones(64, 64, device=device.place)
    for kind in (torch.float32, torch.bfloat16, torch.float16):
        (square.to(kind) @ square.to(kind)).float().softmax(-1).argmax(-1)
    device.synchronize()


def _cap(device: Device, arguments: Mapping[str, Any]) -> None:
    """Never above the share that may be used: torch's own bound on a card, the system's on the CPU."""
    import torch

    usable = arguments["usable_bytes"]
    if isinstance(device, Cpu):
        device.allocate_afresh()
        bound = _mapped_bytes() + usable - _spare_bytes()
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
    else:
        torch.cuda.set_per_process_memory_fraction(min(1.0, usable / device.memory()[1]), device.place)


def _mapped_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[0])
    return pages * resource.getpagesize()


class _Heap(ctypes.Structure):
    """glibc's own account of its heap, `mallinfo2`."""

    _fields_ = tuple((name, ctypes.c_size_t) for name in _HEAP_FIELDS.split())


def _spare_bytes() -> int:
    """Mapped already and given back: what would be found there is no memory beyond the bound. 0 where nobody counts."""
    library = ctypes.CDLL(None)
    if not hasattr(library, "mallinfo2"):
        return 0
    library.mallinfo2.restype = _Heap
    return int(library.mallinfo2().fordblks)


def _retries(device: Device) -> dict[str, int]:
    """A pass that needed the allocator to give back and try again is a narrow one."""
    import torch

    if isinstance(device, Cpu):
        return {}
    stats = torch.cuda.memory_stats(device.place)
    return {"retries": int(stats.get("num_alloc_retries", 0)), "out_of_memory": int(stats.get("num_ooms", 0))}
