"""Groups: how layers of different pages share one pool of blocks (reference: accounting 2.5 and 2.6)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.vllm.pages import PagedLayers, Paging
from service.domain.errors import Fault, NotSupported
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_LATENT_BLOCK = 128
"""Tokens that the block of a latent cache beside recurrent state is a multiple of."""


class Flight(NamedTuple):
    """What bounds the blocks of a request beside its length.

    `tokens` may be scheduled and not yet settled, `state_blocks` a request holds of each state group, `context_ranks`
    share the tokens of full attention.
    """

    tokens: int
    state_blocks: int
    context_ranks: int = 1


class Group(NamedTuple):
    """Layers that take their blocks together; `block_tokens` a block, `tokens` as a window, chunk or encoder bounds."""

    paging: Paging
    layers: int
    block_tokens: int
    tokens: int

    def blocks(self, length: int, flight: Flight) -> int:
        """Blocks that a request of that many tokens holds at most (accounting 2.3)."""
        if self.paging is Paging.FULL:
            held = length if flight.context_ranks == 1 else ceil_div(length, flight.context_ranks)
            return ceil_div(held, self.block_tokens)
        if self.paging is Paging.WINDOW:
            return ceil_div(min(self.tokens - 1 + flight.tokens, length), self.block_tokens) + 1
        if self.paging is Paging.CHUNK:
            return ceil_div(min(self.tokens + flight.tokens, length), self.block_tokens)
        if self.paging is Paging.STATE:
            return flight.state_blocks
        return ceil_div(self.tokens, self.block_tokens)

    def settled(self, flight: Flight) -> int:
        """The length from which on a request holds no more blocks of this group; 1 for one that keeps growing."""
        if self.paging is Paging.WINDOW:
            return max(1, self.tokens - 1 + flight.tokens)
        return self.tokens + flight.tokens if self.paging is Paging.CHUNK else 1


@dataclass(frozen=True, slots=True)
class Plan:
    """The groups of a model, and what one block takes on a rank of each pipeline stage.

    `alike` are the groups with how many there are of each; `padding_layers` are places that no layer fills.
    """

    groups: tuple[Group, ...]
    stage_bytes: tuple[int, ...]
    block_tokens: int
    padding_layers: int
    alike: tuple[tuple[Group, int], ...]

    @property
    def keeps_windows(self) -> bool:
        """Whether a windowed layer holds its window alone, and not every token as full attention does."""
        return any(group.paging in {Paging.WINDOW, Paging.CHUNK} for group in self.groups)

    @property
    def smallest_block_tokens(self) -> int:
        """Tokens of the smallest block, which older releases print their cache size in."""
        return min((g.block_tokens for g in self.groups if g.paging is not Paging.STATE), default=self.block_tokens)

    def blocks(self, length: int, flight: Flight) -> int:
        """Blocks that a request of that many tokens holds, over all groups."""
        total = 0
        for group, count in self.alike:
            total += count * group.blocks(length, flight)
        return total

    def printed(self, blocks: int, length: int, flight: Flight) -> int:  # noqa: ARG002  # what packed groups override
        """Blocks of a request of that many tokens, which holds `blocks`, as the engine divides by them."""
        return blocks

    def checked(self, stage: int, blocks: int, pool_bytes: int) -> int:  # noqa: ARG002  # what packed groups override
        """Of the blocks of a stage's pool, those that count when the engine asks whether the longest request fits."""
        return blocks

    def needed(self, stage: int, blocks: int, block_bytes: int) -> int:  # noqa: ARG002  # what packed groups override
        """Bytes of a stage's pool from which on so many blocks count there."""
        return blocks * block_bytes

    def longest(self, blocks: int, flight: Flight) -> int | None:
        """The longest request that so many blocks hold; None where a longer one takes no more."""
        settled = max((g.settled(flight) for g, _ in self.alike), default=1)
        full = [(group.block_tokens, count) for group, count in self.alike if group.paging is Paging.FULL]
        if self.blocks(settled, flight) > blocks:
            return self._between(0, settled, blocks, flight) if self.blocks(1, flight) <= blocks else 0
        if not full:
            return None
        if len(full) > 1:
            return self._between(settled, (blocks + 1) * max(full)[0] * flight.context_ranks, blocks, flight)
        (tokens, count), ranks = full[0], flight.context_ranks
        fixed = sum(n * group.blocks(settled, flight) for group, n in self.alike if group.paging is not Paging.FULL)
        return (blocks - fixed) // count * tokens * ranks

    def _between(self, low: int, high: int, blocks: int, flight: Flight) -> int:
        """The longest length that fits, from one that does to one that does not."""
        while high - low > 1:
            middle = (low + high) // 2
            if self.blocks(middle, flight) <= blocks:
                low = middle
            else:
                high = middle
        return low


def alike(groups: Iterable[Group]) -> tuple[tuple[Group, int], ...]:
    """Groups with how many there are of each, however many layers they have."""
    return tuple(Counter(group._replace(layers=0) for group in groups).items())


def _planned(groups: list[Group], stage_bytes: tuple[int, ...], block_tokens: int, padding: int) -> Plan:
    return Plan(tuple(groups), stage_bytes, block_tokens, padding, alike(groups))


def plan(kinds: Sequence[PagedLayers], stages: Sequence[range], block_tokens: int, ratio: float | None) -> Plan:
    """Group the layers; raises NotSupported where their pages cannot share a pool.

    Where the largest bucket holds less than `ratio` times the layers of the smallest, groups are as large as it; else,
    and where `ratio` is None, they are as large as the smallest.
    """
    kinds, block_tokens = _aligned(tuple(kinds), block_tokens)
    if len(kinds) == 1 or _one_type(kinds):
        return _one_group(kinds, stages, block_tokens)
    page, buckets = _unified(kinds, block_tokens)
    size = _group_size([len(kind.layers) for kind, _ in buckets], ratio)
    groups: list[Group] = []
    members: list[tuple[int, ...]] = []
    for kind, block in buckets:
        for layers in _split(kind.layers, size):
            groups.append(Group(kind.paging, len(layers), block, kind.tokens))
            members.append(layers)
    padding = sum(size - len(layers) for layers in members)
    return _planned(groups, tuple(page * _most(members, stage) for stage in stages), block_tokens, padding)


def _aligned(kinds: tuple[PagedLayers, ...], block_tokens: int) -> tuple[tuple[PagedLayers, ...], int]:
    """Blocks of attention large enough for a state's page, and the state padded to them (accounting 2.5)."""
    state = max((kind.state_bytes for kind in kinds), default=0)
    paged = [kind for kind in kinds if not kind.state_bytes]
    if not state or not paged:
        return kinds, block_tokens
    first = paged[0]
    step = max(block_tokens, _LATENT_BLOCK) if first.latent else block_tokens
    aligned = step * ceil_div(state, first.page_bytes(step))
    block_tokens = max(block_tokens, aligned)
    page = first.page_bytes(block_tokens)
    return tuple(replace(k, state_bytes=max(page, k.state_bytes)) if k.state_bytes else k for k in kinds), block_tokens


def _one_type(kinds: tuple[PagedLayers, ...]) -> bool:
    """Whether all layers keep the same tokens, whatever these take: then they share one group."""
    return len({(kind.paging, kind.tokens) for kind in kinds}) == 1 and kinds[0].paging is not Paging.STATE


def _one_group(kinds: tuple[PagedLayers, ...], stages: Sequence[range], block_tokens: int) -> Plan:
    first = kinds[0]
    layers = sum(len(kind.layers) for kind in kinds)
    sizes = tuple(sum(k.page_bytes(block_tokens) * _count(k.layers, stage) for k in kinds) for stage in stages)
    return _planned([Group(first.paging, layers, block_tokens, first.tokens)], sizes, block_tokens, 0)


def _unified(kinds: tuple[PagedLayers, ...], block_tokens: int) -> tuple[int, list[tuple[PagedLayers, int]]]:
    """One page for all: smaller ones hold more tokens where that divides evenly, and are padded where it does not."""
    page = max(kind.page_bytes(block_tokens) for kind in kinds)
    return page, [(kind, _block(kind, block_tokens, page)) for kind in kinds]


def _block(kind: PagedLayers, block_tokens: int, page: int) -> int:
    own = kind.page_bytes(block_tokens)
    if kind.paging is Paging.STATE or own == page:
        return block_tokens
    if page % own == 0:
        return block_tokens * (page // own)
    if kind.latent:
        detail = "The pages of this model's latent layers do not divide the pages of its other layers."
        raise NotSupported(Fault("/engine", detail))
    return block_tokens


def _group_size(counts: list[int], ratio: float | None) -> int:
    smallest, largest = min(counts), max(counts)
    return largest if ratio is not None and largest < smallest * ratio else smallest


def _split(layers: tuple[int, ...], size: int) -> Iterator[tuple[int, ...]]:
    """Layers dealt out in turn, so that every pipeline stage holds some of each group."""
    count = ceil_div(len(layers), size)
    for first in range(count):
        yield layers[first::count]


def _most(members: list[tuple[int, ...]], stage: range) -> int:
    return max(_count(layers, stage) for layers in members)


def _count(layers: tuple[int, ...], stage: range) -> int:
    return sum(layer in stage for layer in layers)
