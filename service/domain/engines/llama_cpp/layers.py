"""Which device holds which layer: the last layers go to devices, in proportion to the split (accounting 4)."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.engines.llama_cpp.tensors import HostedModules, hosted_modules
from service.domain.loads import whole_load
from service.domain.memo import remembered
from service.domain.parallel import ONE_GPU
from service.domain.units import whole
from service.domain.weights import placed_weights

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.model import Model
    from service.domain.precision import CacheFormat, WeightFormat

_ELSEWHERE = frozenset({ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER, ModuleKind.PREDICTION})
"""In files of their own, or not loaded."""
_WIDE = frozenset({ModuleKind.MLP, ModuleKind.EXPERT, ModuleKind.SHARED_EXPERT})
_HEADS = frozenset({ModuleKind.HEAD, ModuleKind.EMBEDDING})
_DENSE = frozenset({ModuleKind.MLP, ModuleKind.SHARED_EXPERT})
_EXPERTS = frozenset({ModuleKind.EXPERT})
_ATTENTION = frozenset({ModuleKind.ATTENTION})
_SINGLE = Struct("f")
_NOTHING: HostedModules = {}
_MATRICES = ("dense_in", "dense_out", "experts_in", "experts_out", "output")


class HostWork(NamedTuple):
    """What the host keeps and the first device works off, in bytes.

    The largest matrix that leads into the middle of a dense layer and out of it, the same of a layer's experts, the
    largest that follows attention, and a cell of a layer's keys and values.
    """

    dense_in: int = 0
    dense_out: int = 0
    experts_in: int = 0
    experts_out: int = 0
    output: int = 0
    cell: int = 0


class Placement(NamedTuple):
    """The layers of each device, and the device of the output matrix, None where the host keeps it."""

    devices: tuple[frozenset[int], ...]
    output: int | None


@lru_cache(maxsize=256)
def placement(layers: int, split: tuple[float, ...], gpu_layers: int, *, output_first: bool) -> Placement:
    """Place layers and, as one more of them, the output matrix, with the 32-bit arithmetic of load_tensors.

    At least one share must be above 0 as a 32-bit number.
    """
    count = layers + 1 if gpu_layers < 0 else min(gpu_layers, layers + 1)
    start = layers + 1 - count if output_first else max(layers - count, 0)
    sums = list(accumulate(map(single, split), lambda total, share: single(total + share)))
    points = [single(point / sums[-1]) for point in sums]
    found: list[set[int]] = [set() for _ in split]
    for layer in range(start, min(start + count, layers + 1)):
        found[bisect_right(points, single((layer - start) / count))].add(layer)
    output = next((device for device, held in enumerate(found) if layers in held), None)
    return Placement(tuple(frozenset(held - {layers}) for held in found), output)


def single(value: float) -> float:
    """The nearest 32-bit number."""
    nearest: float = _SINGLE.unpack(_SINGLE.pack(value))[0]
    return nearest


def timed_loads(setting: Setting, where: Placement) -> tuple[RankLoad, ...]:
    """What a step reads on each device; the embedding's rows count on the one with the first layer."""
    scenario = setting.scenario
    model, weights, cache = scenario.model, scenario.weights, scenario.cache
    key = ("llama-timed", weights, cache, where)
    loads: tuple[RankLoad, ...] = remembered(model, key, lambda: _timed(model, weights, cache, where))
    return loads


def _timed(model: Model, weights: WeightFormat, cache: CacheFormat, where: Placement) -> tuple[RankLoad, ...]:
    stages = tuple(range(min(held), max(held) + 1) if held else range(0) for held in where.devices)
    first = next((device for device, held in enumerate(where.devices) if 0 in held), -1)
    last = -1 if where.output is None else where.output
    held = placed_weights(model.architecture, weights, ONE_GPU, stages, (first, last))
    loads = _loads(model, weights, cache, where)
    return tuple(load._replace(weights=own) for load, own in zip(loads, held, strict=True))


def device_loads(setting: Setting, where: Placement) -> tuple[RankLoad, ...]:
    """What each device holds of weights and caches; embedding tables that are only gathered from stay on the host."""
    scenario = setting.scenario
    model, weights, cache = scenario.model, scenario.weights, scenario.cache
    hosted = hosted_modules(setting)
    key = ("llama-devices", weights, cache, where, _hosting(setting))
    loads: tuple[RankLoad, ...] = remembered(model, key, lambda: _loads(model, weights, cache, where, hosted))
    if scenario.weight_bytes is None and scenario.parameters is None:
        return loads
    return tuple(load._replace(weight_bytes=setting.scaled(load.weight_bytes)) for load in loads)


def has_experts(setting: Setting, layers: frozenset[int]) -> bool:
    """Whether a device with these layers has routed experts of any of them."""
    hosted = hosted_modules(setting)
    experts = (m for m in setting.scenario.model.architecture.modules if m.kind is ModuleKind.EXPERT)
    return any(layers.intersection(module.layers) - _layers_of(hosted, module) for module in experts)


def _hosting(setting: Setting) -> tuple[int, tuple[str, ...]]:
    """All that decides what of a device's layers stays on the host."""
    return setting.asked.get("cpu_expert_layers") or 0, tuple(setting.asked.get("cpu_tensors") or ())


def _layers_of(hosted: HostedModules, module: Module) -> frozenset[int]:
    return frozenset().union(*(part.layers for part in hosted.get(module, ())))


def _loads(
    model: Model, weights: WeightFormat, cache: CacheFormat, where: Placement, hosted: HostedModules = _NOTHING
) -> tuple[RankLoad, ...]:
    architecture, load = model.architecture, whole_load(model, weights, cache)
    loads = []
    for device, layers in enumerate(where.devices):
        size = _weight_bytes(architecture, weights, layers, hosted, output=device == where.output)
        parts = (
            _part(kept, sum(layer in layers for layer in owned.layers))
            for owned, kept in zip(architecture.caches, load.terms, strict=True)
        )
        terms = tuple(part for part in parts if part.layers)
        loads.append(load._replace(index=device, stage=device, weight_bytes=size, terms=terms))
    return tuple(loads)


def _weight_bytes(
    architecture: Architecture, number: WeightFormat, layers: frozenset[int], hosted: HostedModules, *, output: bool
) -> int:
    total = 0
    for module in architecture.modules:
        for count, left in hosted.get(module) or ((module.per_layer, frozenset()),):
            held = _held(module, layers - left, output=output)
            if held:
                total += count * number.held_bytes(module, module.rows, module.columns, held)
    return total


def host_bytes(setting: Setting, where: Placement) -> tuple[int, int]:
    """What the host keeps that a device works off: the most of a layer's dense or expert matrices, and the output's."""
    scenario = setting.scenario
    model, weights = scenario.model, scenario.weights
    key = ("llama-host", weights, where)
    found: tuple[int, int] = remembered(model, key, lambda: _host_bytes(model.architecture, weights, where))
    return setting.scaled(found[0]), setting.scaled(found[1])


def _host_bytes(architecture: Architecture, number: WeightFormat, where: Placement) -> tuple[int, int]:
    left = frozenset(range(architecture.layers)).difference(*where.devices)
    sizes = dict.fromkeys(left, 0)
    for module in architecture.modules:
        if module.kind in _WIDE and module.columns > 1:
            for layer in left.intersection(module.layers):
                sizes[layer] += module.per_layer * number.held_bytes(module, module.rows, module.columns, (layer,))
    head = 0
    if where.output is None:
        heads = (m for m in architecture.modules if m.kind in _HEADS and m.place in {Place.LAST, Place.BOTH_ENDS})
        head = sum(number.held_bytes(m, m.rows, m.columns, (0,)) for m in heads)
    return max(sizes.values(), default=0), head


def host_work(setting: Setting, where: Placement) -> HostWork:
    """What is copied to a device to be worked off there, each matrix by itself."""
    scenario, hosted = setting.scenario, hosted_modules(setting)
    model, weights, cache = scenario.model, scenario.weights, scenario.cache
    key = ("llama-host-work", weights, cache, where, _hosting(setting))
    work: HostWork = remembered(model, key, lambda: _host_work(model, weights, cache, where, hosted))
    return work._replace(**{name: setting.scaled(getattr(work, name)) for name in _MATRICES})


def _host_work(
    model: Model, number: WeightFormat, cache: CacheFormat, where: Placement, hosted: HostedModules
) -> HostWork:
    architecture = model.architecture
    left = frozenset(range(architecture.layers)).difference(*where.devices)

    def largest(kinds: frozenset[ModuleKind], shard: Shard) -> int:
        chosen = (m for m in architecture.modules if m.columns > 1 and m.kind in kinds and m.shard is shard)
        rows = ((m, layer) for m in chosen for layer in (left | _layers_of(hosted, m)).intersection(m.layers))
        return max((_tensor_bytes(m, number, layer) for m, layer in rows), default=0)

    owned = zip(architecture.caches, whole_load(model, number, cache).terms, strict=True)
    cells = (term.growing_bytes // term.layers for own, term in owned if left.intersection(own.layers))
    return HostWork(
        dense_in=largest(_DENSE, Shard.ROWS),
        dense_out=largest(_DENSE, Shard.COLUMNS),
        experts_in=largest(_EXPERTS, Shard.ROWS),
        experts_out=largest(_EXPERTS, Shard.COLUMNS),
        output=largest(_ATTENTION, Shard.COLUMNS),
        cell=max(cells, default=0),
    )


def _tensor_bytes(module: Module, number: WeightFormat, layer: int) -> int:
    """A layer's matrices of one role, which are one tensor of a file."""
    return module.per_layer * number.held_bytes(module, module.rows, module.columns, (layer,))


def _held(module: Module, layers: frozenset[int], *, output: bool) -> tuple[int, ...]:
    """The module's layers on a device; what stands behind them all is with the output, a tied table as a copy."""
    if module.kind in _ELSEWHERE or module.place is Place.FIRST:
        return ()
    if module.place is Place.LAYERS:
        return tuple(layer for layer in module.layers if layer in layers)
    return (0,) if output else ()


def _part(term: CacheTerm, layers: int) -> CacheTerm:
    """A term over so many of its layers."""
    share = Fraction(layers, term.layers)
    return replace(
        term,
        layers=layers,
        bytes_per_token=whole(term.bytes_per_token * share),
        growing_bytes=whole(term.growing_bytes * share),
        fixed_bytes=whole(term.fixed_bytes * share),
        readers=whole(term.readers * share),
        score_flops=whole(term.score_flops * share),
        prefill_flops=whole(term.prefill_flops * share),
    )
