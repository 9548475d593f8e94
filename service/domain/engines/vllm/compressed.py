"""Compressed attention (DeepSeek-V4): pages of several sizes side by side in one block, shared by groups in turn.

A layer keeps its window, one vector and one index key for every few tokens, and the inputs still to be compressed,
which are paged as short windows. Re-derived from get_kv_cache_groups and get_kv_cache_config_from_groups of
v1/core/kv_cache_utils.py (0.20 to 0.32) and kv_cache_planning.py (0.33).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.engines.vllm.compressed_rules import OVERLAID, TUPLES
from service.domain.engines.vllm.groups import Flight, Group, Plan, alike
from service.domain.engines.vllm.pages import Paging
from service.domain.errors import Fault, NotSupported
from service.domain.units import ceil_div, up

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from service.domain.architecture import CacheLayers
    from service.domain.cache.base import CacheSpec
    from service.domain.engines.vllm.compressed_rules import Compressed, LayoutRule, PageFacts

_Bucket = tuple["Page", ...]


class Page(NamedTuple):
    """A page of one size, the layers that have one, and the window that bounds it; 0 where nothing does."""

    bytes: int
    layers: tuple[int, ...]
    block_tokens: int
    window_tokens: int

    def count(self, stage: range) -> int:
        """Layers of a stage that have one."""
        return sum(layer in stage for layer in self.layers)


def pages_of(caches: Iterable[CacheLayers], facts: PageFacts) -> tuple[Page, ...]:
    """A page of every kind of cache of the layers that own it."""
    return tuple(_page(owners.spec, owners.layers, facts) for owners in caches)


def _page(spec: CacheSpec, layers: tuple[int, ...], facts: PageFacts) -> Page:
    if isinstance(spec, SlidingCache):
        size, block, window = facts.window_tokens * facts.row_bytes, facts.window_tokens, spec.window_tokens
    elif isinstance(spec, RecurrentCache):
        window = spec.key_width
        block = facts.state_tokens[window]
        size = block * spec.value_width * spec.state_element_bytes
    else:
        assert isinstance(spec, LatentCache | IndexerCache)  # noqa: S101  # the other kinds are refused before
        row = facts.index_bytes if isinstance(spec, IndexerCache) else facts.row_bytes
        size, block, window = facts.tokens // spec.tokens_per_row * row, facts.tokens, 0
    return Page(up(size, facts.multiple_bytes), layers, block, window)


@dataclass(frozen=True, slots=True)
class PackedPlan(Plan):
    """Groups of pages side by side; `group_bytes` is what each group fills of a block on the first stage.

    `checked_bytes` is what a block counts for on each stage when the engine asks whether the longest request fits.
    """

    group_bytes: tuple[int, ...]
    checked_bytes: tuple[int, ...]
    by_bytes: bool

    def printed(self, blocks: int, length: int, flight: Flight) -> int:
        """Blocks of a request as the engine divides by them: where by bytes, in blocks of the growing group."""
        if not self.by_bytes:
            return blocks
        sizes = zip(self.groups, self.group_bytes, strict=True)
        return ceil_div(sum(group.blocks(length, flight) * size for group, size in sizes), self.group_bytes[0])

    def checked(self, stage: int, blocks: int, pool_bytes: int) -> int:
        """Blocks of the pool that count when the engine asks whether the longest request fits."""
        return min(blocks, pool_bytes // self.checked_bytes[stage])

    def needed(self, stage: int, blocks: int, block_bytes: int) -> int:
        """Bytes of a stage's pool from which on so many blocks count there."""
        return blocks * max(block_bytes, self.checked_bytes[stage])


def packed(caches: Sequence[CacheLayers], stages: Sequence[range], rules: Compressed) -> PackedPlan:
    """Group the pages of a model's caches; sizes on the fullest rank of each pipeline stage.

    Raises NotSupported for a stage without a layer of some group where the release counts such groups otherwise.
    """
    buckets = _buckets(pages_of(caches, rules.pages))
    growing, rule = buckets[0], rules.rule
    if rule.layout != OVERLAID:
        buckets = (growing, *(_padded(bucket, growing) for bucket in buckets[1:]))
    repeats = _repeats(buckets, rule)
    members = [growing, *(part for bucket in buckets[1:] for part in _split(bucket, repeats))]
    if rule.checks_tuples:
        _check_stages(members, stages)
    groups = tuple(_group(bucket) for bucket in members)
    sizes = tuple(_block_bytes(members, stage, rule.layout) for stage in stages)
    checked = tuple(_tuple_bytes(members, stage) for stage in stages) if rule.checks_tuples else sizes
    own = tuple(sum(page.bytes * page.count(stages[0]) for page in bucket) for bucket in members)
    return PackedPlan(groups, sizes, growing[0].block_tokens, 0, alike(groups), own, checked, rule.by_bytes)


def _check_stages(members: Sequence[_Bucket], stages: Sequence[range]) -> None:
    """Groups that a stage has no layer of keep the whole model's pages there, which nobody has described."""
    for index, stage in enumerate(stages):
        if any(not any(page.count(stage) for page in bucket) for bucket in members):
            detail = f"Stage {index} of {len(stages)} has no layer of some kind, which this release counts otherwise."
            raise NotSupported(Fault("/pipeline_parallel", detail))


def _buckets(pages: Sequence[Page]) -> tuple[_Bucket, ...]:
    """Pages that take their blocks together, those that grow first: of equal blocks and windows; equal sizes as one."""
    found: dict[tuple[int, int], dict[int, Page]] = defaultdict(dict)
    for page in sorted(pages, key=lambda page: page.window_tokens > 0):
        same = found[page.block_tokens, page.window_tokens]
        before = same.get(page.bytes)
        layers = tuple(sorted((*before.layers, *page.layers))) if before else page.layers
        same[page.bytes] = page._replace(layers=layers)
    return tuple(tuple(bucket.values()) for bucket in found.values())


def _padded(bucket: _Bucket, growing: _Bucket) -> _Bucket:
    """Each page as large as the next of those that grow."""
    sizes = sorted(page.bytes for page in growing)
    return tuple(page._replace(bytes=next(size for size in sizes if size >= page.bytes)) for page in bucket)


def _most(bucket: _Bucket) -> int:
    return max(len(page.layers) for page in bucket)


def _repeats(buckets: Sequence[_Bucket], rule: LayoutRule) -> int:
    """Layers of a group: as many as waste the fewest places, and never less than a group of several pages has."""
    balanced = [bucket for bucket in buckets if len({len(page.layers) for page in bucket}) == 1]
    if rule.repeats_all:
        return _least_padding([_most(bucket) for bucket in buckets], _most(buckets[0]))
    least = max((_most(bucket) for bucket in balanced if len(bucket) > 1), default=1)
    return _least_padding([_most(bucket) for bucket in balanced], least)


def _least_padding(counts: Sequence[int], least: int) -> int:
    """The size from `least` up that rounding all counts up to multiples of it adds least to; the largest such."""
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))


def _split(bucket: _Bucket, repeats: int) -> list[_Bucket]:
    count = ceil_div(_most(bucket), repeats)
    return [tuple(page._replace(layers=page.layers[first::count]) for page in bucket) for first in range(count)]


def _group(bucket: _Bucket) -> Group:
    page, layers = bucket[0], sum(len(page.layers) for page in bucket)
    paging = Paging.WINDOW if page.window_tokens else Paging.FULL
    return Group(paging, layers, page.block_tokens, page.window_tokens)


def _block_bytes(members: Sequence[_Bucket], stage: range, layout: str) -> int:
    if layout == TUPLES:
        return _tuple_bytes(members, stage)
    if layout == OVERLAID:
        return max(sum(page.bytes * page.count(stage) for page in bucket) for bucket in members)
    slots: dict[int, int] = defaultdict(int)
    for bucket in members:
        for page in bucket:
            slots[page.bytes] = max(slots[page.bytes], page.count(stage))
    return sum(size * count for size, count in slots.items())


def _tuple_bytes(members: Sequence[_Bucket], stage: range) -> int:
    """One page of every size that grows, as many times as any group has layers of any size."""
    sizes = sum(page.bytes for page in members[0])
    return sizes * max(page.count(stage) for bucket in members for page in bucket)
