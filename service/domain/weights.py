"""Bytes of weights: of the whole model, and of the ranks of a layout (reference: accounting sections 6.1 and 7)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.cache.base import heads_on_rank
from service.domain.parallel import ONE_GPU, Layout, stage_layers
from service.domain.units import ceil_bytes, ceil_div

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.precision import WeightFormat

_STAGE_ENDS = {Place.FIRST: (True, False), Place.LAST: (False, True), Place.BOTH_ENDS: (True, True)}
_OUTSIDE = (0,)
_UNREAD = frozenset(
    {ModuleKind.EMBEDDING, ModuleKind.POSITION, ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER}
)
"""Read by gathered rows or for a prompt's pictures and sounds, not by a decode step."""


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


def whole_model(architecture: Architecture, number: WeightFormat) -> RankWeights:
    """The weights of the whole model, as one rank that holds everything."""
    return rank_weights(architecture, number, ONE_GPU)[0]


def rank_weights(architecture: Architecture, number: WeightFormat, layout: Layout) -> tuple[RankWeights, ...]:
    """The fullest rank of each pipeline stage, in order of stages."""
    stages = stage_layers(architecture.layers, layout.pipeline)
    return placed_weights(architecture, number, layout, stages, (0, len(stages) - 1))


def placed_weights(
    architecture: Architecture,
    number: WeightFormat,
    layout: Layout,
    stages: tuple[range, ...],
    ends: tuple[int, int],
) -> tuple[RankWeights, ...]:
    """The fullest rank of stages with these layers; `ends` are those of the embedding and of the output matrix."""
    ranks = tuple(
        _stage(architecture, number, layout, layers, first=stage == ends[0], last=stage == ends[1])
        for stage, layers in enumerate(stages)
    )
    if number.file_bytes is None:
        return ranks
    counted = _stage(architecture, number, ONE_GPU, range(architecture.layers), first=True, last=True).bytes
    return tuple(_as_filed(rank, number.file_bytes, counted) for rank in ranks)


def _as_filed(rank: RankWeights, file_bytes: int, counted_bytes: int) -> RankWeights:
    """A rank's bytes in the proportion of what the file holds to what its config's shapes come to."""

    def part(size: int) -> int:
        return ceil_div(size * file_bytes, counted_bytes)

    return replace(rank, bytes=part(rank.bytes), read_bytes=part(rank.read_bytes), expert_bytes=part(rank.expert_bytes))


def _stage(  # noqa: PLR0913  # a stage is its layers and whether it is an end
    architecture: Architecture, number: WeightFormat, layout: Layout, layers: range, *, first: bool, last: bool
) -> RankWeights:
    total = _Tally(number)
    for module in architecture.modules:
        if module.kind is ModuleKind.PREDICTION:
            continue
        held = _held(module, layers, first=first, last=last)
        if held:
            total.add(module, held, layout, heads=last and architecture.tied)
    return total.result()


def _held(module: Module, layers: range, *, first: bool, last: bool) -> tuple[int, ...]:
    """The layers of the module that stand on the stage; one outside the layers is as one in layer 0."""
    if module.place is Place.LAYERS:
        own = module.layers
        return own if own and own[0] in layers and own[-1] in layers else tuple(filter(layers.__contains__, own))
    on_first, on_last = _STAGE_ENDS[module.place]
    return _OUTSIDE if (first and on_first) or (last and on_last) else ()


class _Tally:
    """Adds up one rank. Ideal widths are summed in bits, so that a whole model has no rounding but the last."""

    def __init__(self, number: WeightFormat) -> None:
        self._number = number
        self._held: list[tuple[int, int]] = []
        self._read: list[tuple[int, int]] = []
        self._experts: list[tuple[int, int]] = []
        self._row_bytes = 0
        self._expert_parameters = 0

    def add(self, module: Module, held: tuple[int, ...], layout: Layout, *, heads: bool) -> None:
        """Add these layers' parts of a module as one rank of the layout holds them."""
        rows, columns, per_layer = _on_rank(module, layout)
        layers = len(held)
        size = per_layer * self._number.held_bytes(module, rows, columns, held)
        share = (layers * per_layer * rows * columns, size)
        self._held.append(share)
        if module.kind is ModuleKind.EXPERT:
            self._experts.append(share)
            self._expert_parameters += layers * module.active_per_layer * module.elements // layout.tensor
        elif module.kind not in _UNREAD or (heads and module.kind is ModuleKind.EMBEDDING):
            self._read.append(share)
        if module.kind in {ModuleKind.EMBEDDING, ModuleKind.POSITION}:
            self._row_bytes += self._number.held_bytes(module, 1, columns, _OUTSIDE)

    def result(self) -> RankWeights:
        """The sums."""
        return RankWeights(
            bytes=self._bytes(self._held),
            read_bytes=self._bytes(self._read),
            expert_bytes=self._bytes(self._experts),
            row_bytes=self._row_bytes,
            read_parameters=sum(elements for elements, _ in self._read),
            expert_parameters=self._expert_parameters,
        )

    def _bytes(self, shares: list[tuple[int, int]]) -> int:
        bits = self._number.uniform_bits
        if bits is None:
            return sum(size for _, size in shares)
        return ceil_bytes(bits * sum(elements for elements, _ in shares))


def _on_rank(module: Module, layout: Layout) -> tuple[int, int, int]:
    """Rows, columns and instances a layer of a module on the fullest tensor-parallel rank."""
    tensor = layout.tensor
    rows, columns, per_layer = module.rows, module.columns, module.per_layer
    if tensor == 1 or module.shard is Shard.REPLICATED:
        return rows, columns, per_layer
    if layout.expert and module.kind is ModuleKind.EXPERT:
        return rows, columns, ceil_div(per_layer, tensor)
    if module.shard is Shard.KV_ROWS:
        return rows // module.heads * heads_on_rank(module.heads, tensor), columns, per_layer
    if module.shard is Shard.COLUMNS:
        return rows, ceil_div(columns, tensor), per_layer
    return ceil_div(rows, tensor), columns, per_layer
