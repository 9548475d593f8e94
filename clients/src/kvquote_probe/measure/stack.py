"""Experiments that time steps of several layers: decoding by one token, and reading prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

from kvquote_probe.commands import MeasureError, Say
from kvquote_probe.measure.blocks import LayerPlan
from kvquote_probe.measure.device import Device, has_no_kernel, is_out_of_memory, opened, refuse_slow_attention
from kvquote_probe.measure.layer import Layer, Tensor, fill, spread, weight
from kvquote_probe.measure.timing import Effort, Timing, Watch, Work, interleaved

_LEAST_FLUSHED_BYTES = 64 << 20
_CAPTURE_WARM_UPS = 3
_LEAST_OF_EACH = 2
_PASSES = 4
"""Of all timings: one to warm up and the three that a median needs."""

Size = tuple[int, int]
"""Sequences and context tokens, or prompts and their tokens."""


def decode(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """The experiment: steps of one token for every number of layers and every size."""
    return _timed(arguments, say, _decoding)


def prefill(arguments: Mapping[str, Any], say: Say) -> dict[str, Any]:
    """The experiment: prompts read at once for every number of layers and every size."""
    return _timed(arguments, say, _reading)


def _timed(arguments: Mapping[str, Any], say: Say, of: Callable[..., Work]) -> dict[str, Any]:
    import torch

    device = opened(arguments)
    if not hasattr(torch.nn.functional, "rms_norm"):
        raise MeasureError(f"Layers need torch 2.5 or newer, this is {torch.__version__}.")
    refuse_slow_attention(device)
    watch = Watch(device, shared=bool(arguments.get("shared")))
    plan, sizes = LayerPlan.from_arguments(arguments["plan"]), [tuple(size) for size in arguments["sizes"]]
    with torch.inference_mode():
        try:
            layers, spreads = _built(plan, sizes, arguments, device, one_token=of is _decoding)
            works = {
                (count, size): of(layers[:count], size, spreads[size], device)
                for count, size in product(arguments["layers"], sizes)
            }
            if arguments.get("choose"):
                works = _affordable(device, works, arguments["effort"]["seconds"], say)
            graphs = bool(arguments.get("graphs")) and _captured(device, works)
            say(f"{len(works)} steps of up to {len(layers)} layers{', as graphs' if graphs else ''}")
            before = _flusher(device) if arguments.get("cold") else None
            timings = interleaved(device, works, Effort(**arguments["effort"]), before)
            head = _head_seconds(arguments, device, sizes) if arguments.get("vocabulary_size") else {}
        except RuntimeError as error:
            if has_no_kernel(error):
                raise MeasureError("torch has no fused attention for these heads in this type on this card.") from error
            if not is_out_of_memory(error):
                raise
            raise MeasureError("These layers and caches do not fit: give fewer --layers, or smaller sizes.") from error
    touched = {size: each.shape[0] if each is not None else 0 for size, each in spreads.items()}
    return {"timings": _told(timings, touched), "graphs": graphs, "head": head, "watched": watch.end()}


def _affordable(
    device: Device, works: dict[tuple[int, Size], Work], seconds: float, say: Say
) -> dict[tuple[int, Size], Work]:
    sizes = affordable_sizes(device, works, seconds)
    kept = {key: work for key, work in works.items() if key[1] in sizes}
    if len(kept) < len(works):
        say(f"{len(works) - len(kept)} of {len(works)} steps are left out, the longest: there is no time for them")
    return kept


def affordable_sizes(device: Device, works: Mapping[tuple[int, Size], Work], seconds: float) -> list[Size]:
    """The sizes, from the smallest on, whose rounds take no longer together than there is time for.

    Two counts and two lengths there are always: without them no fit can be made. Each is run once to see what it takes;
    what the next one takes is foretold from the last two, so that one that takes too long is never begun.
    """
    layers = sorted({count for count, _ in works})
    rounds = _PASSES * sum(layers) / layers[-1]
    sizes = sorted({size for _, size in works}, key=lambda size: (prod(size), size))
    device.seconds(works[layers[-1], sizes[0]])  # what loads kernels says nothing of the others
    kept: list[Size] = []
    seen: list[tuple[int, float]] = []
    left = seconds
    for size in sizes:
        if _told_apart(kept) and _foretold(seen, prod(size)) * rounds > left:
            break
        took = device.seconds(works[layers[-1], size])
        kept.append(size)
        seen.append((prod(size), took))
        left -= took * rounds
    return kept


def _told_apart(sizes: Sequence[Size]) -> bool:
    return all(len({size[at] for size in sizes}) >= _LEAST_OF_EACH for at in (0, 1))


def _foretold(seen: Sequence[tuple[int, float]], amount: int) -> float:
    """What so much takes, on the line through the last and the first of those before it."""
    (first, least), (last, most) = seen[0], seen[-1]
    return most + (max(0.0, most - least) / max(1, last - first)) * (amount - last)


def _built(
    plan: LayerPlan, sizes: Sequence[Size], arguments: Mapping[str, Any], device: Device, *, one_token: bool
) -> tuple[list[Layer], dict[Size, Tensor | None]]:
    """The layers, and for each size which tokens go to which of the experts."""
    import torch

    spreads: dict[Size, Tensor | None] = dict.fromkeys(sizes)
    kept = 0
    if plan.feed_forward.experts:
        drawn = {size: spread(plan.feed_forward, size[0] * (1 if one_token else size[1])) for size in sizes}
        spreads = {size: torch.tensor(each.tokens, device=device.place) for size, each in drawn.items()}
        kept = max(each.touched for each in drawn.values())
    kind = getattr(torch, arguments["torch_type"])
    cached = max((s * plan.attention.tokens_read(c) for s, c in sizes), default=0) if one_token else 0
    made = [
        Layer(plan, kind, device.place, cache_elements=cached * plan.cache_elements, experts_kept=kept)
        for _ in range(max(arguments["layers"]))
    ]
    for layer in made:
        fill(layer.cache)
    return made, spreads


def _decoding(layers: Sequence[Layer], size: Size, spread_tokens: Tensor | None, device: Device) -> Work:
    import torch

    hidden = torch.randn(size[0], layers[0].hidden_size, dtype=layers[0].cache.dtype, device=device.place)

    def step() -> Tensor:
        passed = hidden
        for layer in layers:
            passed = layer.decode(passed, size[1], spread_tokens)
        return passed

    return step


def _reading(layers: Sequence[Layer], size: Size, spread_tokens: Tensor | None, device: Device) -> Work:
    import torch

    hidden = torch.randn(*size, layers[0].hidden_size, dtype=layers[0].cache.dtype, device=device.place)

    def step() -> Tensor:
        passed = hidden
        for layer in layers:
            passed = layer.prefill(passed, spread_tokens)
        return passed

    return step


def _captured(device: Device, works: dict[tuple[int, Size], Work]) -> bool:
    """Replace every step by its graph; where one cannot be captured, all stay as they are.

    Graphs share one pool of memory, since they never run at the same time; each is warmed up on a stream of its own.
    """
    import torch

    if device.kind == "cpu":
        return False
    pool, graphs = torch.cuda.graph_pool_handle(), {}
    try:
        for key, work in works.items():
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_CAPTURE_WARM_UPS):
                    work()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, pool=pool):
                work()
            graphs[key] = graph.replay
    except RuntimeError as error:
        if is_out_of_memory(error) or has_no_kernel(error):
            raise
        return False
    works.update(graphs)
    return True


def _flusher(device: Device) -> Work:
    """Overwrites the last-level cache, so that a step finds its weights in memory as it would among other layers."""
    import torch

    size = max(_LEAST_FLUSHED_BYTES, 2 * device.cache_bytes())
    scratch = torch.empty(size, dtype=torch.int8, device=device.place)
    flush: Work = scratch.zero_
    return flush


def _head_seconds(arguments: Mapping[str, Any], device: Device, sizes: Sequence[Size]) -> dict[str, float]:
    """The output head and the pick of a token, for each number of sequences: once a step, whatever the layers do."""
    import torch

    kind = getattr(torch, arguments["torch_type"])
    table = weight(arguments["vocabulary_size"], arguments["plan"]["hidden_size"], kind, device.place)
    works: dict[int, Work] = {}
    for sequences in sorted({size[0] for size in sizes}):
        hidden = torch.randn(sequences, table.shape[1], dtype=kind, device=device.place)
        works[sequences] = lambda hidden=hidden: (hidden @ table.t()).argmax(-1)  # type: ignore[misc]
    timings = interleaved(device, works, Effort(**arguments["effort"]))
    return {str(sequences): timing.seconds for sequences, timing in timings.items()}


def _told(timings: Mapping[tuple[int, Size], Timing], touched: Mapping[Size, int]) -> list[dict[str, Any]]:
    return [
        {
            "layers": count,
            "size": size,
            "experts": touched[size],
            "seconds": timing.seconds,
            "samples": timing.samples,
            "told": timing.told(),
        }
        for (count, size), timing in timings.items()
    ]
