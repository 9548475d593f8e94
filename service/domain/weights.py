"""Bytes of weights: of the whole model, and of the ranks of a layout (reference: accounting sections 6.1 and 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.cache.base import heads_on_rank
from service.domain.parallel import ONE_GPU, Layout, layers_within, stage_layers
from service.domain.units import ceil_bytes, ceil_div

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.precision import WeightFormat

_STAGE_ENDS = {Place.FIRST: (True, False), Place.LAST: (False, True), Place.BOTH_ENDS: (True, True)}
_OUTSIDE = (0,)
_SHAPES_KEPT = 32
_UNREAD = frozenset(
    {ModuleKind.EMBEDDING, ModuleKind.POSITION, ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER}
)
"""Read by gathered rows or for a prompt's pictures and sounds, not by a decode step."""
_TABLES = frozenset({ModuleKind.EMBEDDING, ModuleKind.POSITION})
# Found once, since Python 3.11 calls a function for each: they are asked of every module.
_PREDICTION, _EXPERT = ModuleKind.PREDICTION, ModuleKind.EXPERT
_LAYERS, _BOTH_ENDS, _REPLICATED = Place.LAYERS, Place.BOTH_ENDS, Shard.REPLICATED


@dataclass(frozen=True, slots=True)
class RankWeights:
    """What one rank holds and what a decode step reads of it.

    `read_bytes` are layers and head without routed experts; `expert_bytes` all routed experts held here, of which a
    batch touches a share; `row_bytes` one gathered row of the embedding tables. The `*_parameters` are the same in
    elements, `expert_parameters` those that one token visits.
    """

    bytes: int
    read_bytes: int
    expert_bytes: int
    row_bytes: int
    read_parameters: int
    expert_parameters: int


class Part(NamedTuple):
    """What a rank holds of a module: `per_layer` matrices of [rows, columns] in each of the layers."""

    module: Module
    rows: int
    columns: int
    per_layer: int
    layers: tuple[int, ...]

    @property
    def elements(self) -> int:
        """Elements of all of them."""
        return self.per_layer * len(self.layers) * self.rows * self.columns

    def bytes(self, number: WeightFormat) -> int:
        """Bytes of all of them in a format."""
        return self.per_layer * number.held_bytes(self.module, self.rows, self.columns, self.layers)


class StageShapes(NamedTuple):
    """The fullest rank of a pipeline stage as it is in every format: its parts by what a decode step does with them.

    `read` are layers and head, `idle` what no step reads, `tables` those of which rows are gathered. The counts are
    elements of the parts, but for `expert_parameters`, those of the routed experts that one token visits.
    """

    read: tuple[Part, ...]
    experts: tuple[Part, ...]
    idle: tuple[Part, ...]
    tables: tuple[Part, ...]
    read_elements: int
    expert_elements: int
    idle_elements: int
    expert_parameters: int


def whole_model(architecture: Architecture, number: WeightFormat) -> RankWeights:
    """The weights of the whole model, as one rank that holds everything."""
    return rank_weights(architecture, number, ONE_GPU)[0]


def rank_weights(architecture: Architecture, number: WeightFormat, layout: Layout) -> tuple[RankWeights, ...]:
    """The fullest rank of each pipeline stage, in order of stages."""
    return weights_in(number, stage_shapes(architecture, layout), architecture)


@lru_cache(maxsize=_SHAPES_KEPT)
def stage_shapes(architecture: Architecture, layout: Layout) -> tuple[StageShapes, ...]:
    """The same of every format: what many formats of one layout are counted from, within a question or a few."""
    stages = stage_layers(architecture.layers, layout.pipeline)
    return placed_shapes(architecture, layout, stages, (0, len(stages) - 1))


def placed_weights(
    architecture: Architecture,
    number: WeightFormat,
    layout: Layout,
    stages: tuple[range, ...],
    ends: tuple[int, int],
) -> tuple[RankWeights, ...]:
    """The fullest rank of stages with these layers; `ends` are those of the embedding and of the output matrix."""
    return weights_in(number, placed_shapes(architecture, layout, stages, ends), architecture)


def placed_shapes(
    architecture: Architecture, layout: Layout, stages: tuple[range, ...], ends: tuple[int, int]
) -> tuple[StageShapes, ...]:
    """The same of every format."""
    return tuple(
        _shapes(architecture, layout, layers, first=stage == ends[0], last=stage == ends[1])
        for stage, layers in enumerate(stages)
    )


def weights_in(
    number: WeightFormat, stages: tuple[StageShapes, ...], architecture: Architecture
) -> tuple[RankWeights, ...]:
    """The stages in a format; scaled to the published file where that was read."""
    ranks = tuple(_weights(number, shapes) for shapes in stages)
    if number.file_bytes is None:
        return ranks
    counted = _weights(number, stage_shapes(architecture, ONE_GPU)[0]).bytes
    return tuple(_as_filed(rank, number.file_bytes, counted) for rank in ranks)


def _as_filed(rank: RankWeights, file_bytes: int, counted_bytes: int) -> RankWeights:
    """A rank's bytes in the proportion of what the file holds to what its config's shapes come to."""

    def part(size: int) -> int:
        return ceil_div(size * file_bytes, counted_bytes)

    return replace(rank, bytes=part(rank.bytes), read_bytes=part(rank.read_bytes), expert_bytes=part(rank.expert_bytes))


def _shapes(architecture: Architecture, layout: Layout, layers: range, *, first: bool, last: bool) -> StageShapes:
    read: list[Part] = []
    experts: list[Part] = []
    idle: list[Part] = []
    tables: list[Part] = []
    for module in architecture.modules:
        kind = module.kind
        held = () if kind is _PREDICTION else _held(module, layers, first=first, last=last)
        if not held:
            continue
        part = Part(module, *_on_rank(module, layout), held)
        if kind in _TABLES:
            tables.append(part)
        if kind is _EXPERT and module.active_per_layer:
            experts.append(part)
        elif kind is _EXPERT:  # for pictures alone: no step with words reads them
            idle.append(part)
        elif kind not in _UNREAD or (last and module.place is _BOTH_ENDS):
            read.append(part)
        else:
            idle.append(part)
    return StageShapes(
        *(tuple(read), tuple(experts), tuple(idle), tuple(tables)),
        *(_elements(read), _elements(experts), _elements(idle)),
        expert_parameters=sum([_visited(part) // layout.tensor for part in experts]),
    )


def _elements(parts: list[Part]) -> int:
    return sum([part.elements for part in parts])


def _visited(part: Part) -> int:
    """Elements of the whole model's experts that one token visits in the part's layers."""
    return len(part.layers) * part.module.active_per_layer * part.module.elements


def _held(module: Module, layers: range, *, first: bool, last: bool) -> tuple[int, ...]:
    """The layers of the module that stand on the stage; one outside the layers is as one in layer 0."""
    if module.place is _LAYERS:
        return layers_within(module.layers, layers)
    on_first, on_last = _STAGE_ENDS[module.place]
    return _OUTSIDE if (first and on_first) or (last and on_last) else ()


def _weights(number: WeightFormat, shapes: StageShapes) -> RankWeights:
    """Ideal widths are summed in bits, so that a whole model has no rounding but the last."""
    bits = number.uniform_bits
    if bits is None:
        read, experts, idle = (
            sum([part.bytes(number) for part in parts]) for parts in (shapes.read, shapes.experts, shapes.idle)
        )
        held = read + experts + idle
    else:
        read, experts = ceil_bytes(bits * shapes.read_elements), ceil_bytes(bits * shapes.expert_elements)
        held = ceil_bytes(bits * (shapes.read_elements + shapes.expert_elements + shapes.idle_elements))
    return RankWeights(
        bytes=held,
        read_bytes=read,
        expert_bytes=experts,
        row_bytes=sum([number.held_bytes(part.module, 1, part.columns, _OUTSIDE) for part in shapes.tables]),
        read_parameters=shapes.read_elements,
        expert_parameters=shapes.expert_parameters,
    )


def _on_rank(module: Module, layout: Layout) -> tuple[int, int, int]:
    """Rows, columns and instances a layer of a module on the fullest tensor-parallel rank."""
    tensor = layout.tensor
    rows, columns, per_layer = module.rows, module.columns, module.per_layer
    if tensor == 1 or module.shard is _REPLICATED:
        return rows, columns, per_layer
    if layout.expert and module.kind is _EXPERT:
        return rows, columns, ceil_div(per_layer, tensor)
    if module.shard is Shard.KV_ROWS:
        return rows // module.heads * heads_on_rank(module.heads, tensor), columns, per_layer
    if module.shard is Shard.COLUMNS:
        return rows, ceil_div(columns, tensor), per_layer
    return ceil_div(rows, tensor), columns, per_layer
