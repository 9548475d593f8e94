"""Pages: what one block of one layer takes on a rank, by kind of cache (reference: accounting 2.1, 2.5)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum, unique
from fractions import Fraction
from typing import TYPE_CHECKING

from service.domain.cache.chunked import ChunkedCache
from service.domain.cache.cross import CrossCache
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.units import ceil_div, up, whole

if TYPE_CHECKING:
    from service.domain.architecture import CacheLayers
    from service.domain.cache.base import CacheSpec
    from service.domain.precision import CacheFormat

_LOOK_AHEAD = frozenset({Mixer.MAMBA2, Mixer.GATED_DELTA})
"""Mixers whose convolution keeps one more input for each speculative token."""
_SCALE_BYTES, _SCALED_ELEMENTS, _ROPE_BYTES = 4, 128, 2
_NARROW_BITS = 8
_EXPANDED_HEAD = 256
"""Elements that releases without a latent kernel padded a head's key and value to."""


@unique
class Paging(StrEnum):
    """How the blocks of a request grow with its length."""

    FULL = "full"
    WINDOW = "window"
    CHUNK = "chunk"
    STATE = "state"
    CROSS = "cross"


@dataclass(frozen=True, slots=True)
class PageRules:
    """What of a page is a matter of the release and the settings, not of the model.

    `windows` and `chunks` say whether such layers have pages of their own or are charged as full attention, `states`
    whether recurrent state is paged at all. `latent_multiple_bytes` rounds a token's vector up; with `latent_expanded`
    there is no latent cache. `scale_bytes` is what a cache type adds for each token, head and side.
    """

    windows: bool
    chunks: bool
    states: bool
    latent_expanded: bool = False
    latent_multiple_bytes: int = 1
    scale_bytes: int = 0
    sparse_narrow: bool = False
    speculative_tokens: int = 0


@dataclass(frozen=True, slots=True)
class PagedLayers:
    """Layers with equal pages: `token_bytes` for each token of a block, or `state_bytes` however many it has.

    `tokens` are those a window, a chunk or an encoder holds at most; 0 where nothing bounds them.
    """

    paging: Paging
    layers: tuple[int, ...]
    token_bytes: Fraction | int
    state_bytes: int = 0
    tokens: int = 0
    latent: bool = False

    def page_bytes(self, block_tokens: int) -> int:
        """Bytes of one block of one layer."""
        return self.state_bytes or whole(self.token_bytes * block_tokens)


def paged_layers(
    caches: tuple[CacheLayers, ...], number: CacheFormat, tensor: int, rules: PageRules
) -> tuple[PagedLayers, ...]:
    """Every layer that owns a cache, as the pages of one rank; layers of equal pages together, in layer order."""
    found: dict[tuple[Paging, Fraction | int, int, int, bool], list[int]] = {}
    for owners in caches:
        made = _paged(owners, number, tensor, rules)
        if made is None:
            continue
        key = (made.paging, made.token_bytes, made.state_bytes, made.tokens, made.latent)
        found.setdefault(key, []).extend(owners.layers)
    return tuple(
        PagedLayers(paging, tuple(sorted(layers)), token_bytes, state_bytes, tokens, latent)
        for (paging, token_bytes, state_bytes, tokens, latent), layers in found.items()
    )


def unpaged_state_bytes(caches: tuple[CacheLayers, ...], tensor: int) -> int:
    """Recurrent state of one sequence on a rank, for releases that keep it outside the pages."""
    return sum(
        len(owners.layers) * owners.spec.on_rank(tensor).fixed_bytes
        for owners in caches
        if isinstance(owners.spec, RecurrentCache)
    )


def _paged(owners: CacheLayers, number: CacheFormat, tensor: int, rules: PageRules) -> PagedLayers | None:
    spec = owners.spec.on_rank(tensor)
    if isinstance(spec, RecurrentCache):
        if not rules.states:
            return None
        return PagedLayers(Paging.STATE, owners.layers, 0, state_bytes(spec, rules.speculative_tokens))
    size = token_bytes(spec, number, rules, ceil_div(owners.query_heads, tensor))
    paging, tokens = _paging(spec, rules)
    return PagedLayers(paging, owners.layers, size, 0, tokens, isinstance(spec, LatentCache | IndexerCache))


def _paging(spec: CacheSpec, rules: PageRules) -> tuple[Paging, int]:
    if isinstance(spec, SlidingCache) and rules.windows:
        return Paging.WINDOW, spec.window_tokens
    if isinstance(spec, ChunkedCache) and rules.chunks:
        return Paging.CHUNK, spec.window_tokens
    if isinstance(spec, CrossCache):
        return Paging.CROSS, spec.window_tokens
    return Paging.FULL, 0


def token_bytes(spec: CacheSpec, number: CacheFormat, rules: PageRules, heads: int) -> Fraction | int:
    """Bytes of one token in one layer's page; `heads` are the rank's query heads."""
    if isinstance(spec, LatentCache):
        return _latent_bytes(spec, number, rules, heads)
    size: Fraction | int = spec.row_bytes(number)
    if rules.scale_bytes and not isinstance(spec, IndexerCache):
        size += 2 * spec.kv_heads * rules.scale_bytes
    return size.numerator if size.denominator == 1 else size


def _latent_bytes(spec: LatentCache, number: CacheFormat, rules: PageRules, heads: int) -> Fraction | int:
    if rules.latent_expanded:
        return whole(2 * heads * number.row_bytes(_EXPANDED_HEAD))
    if rules.sparse_narrow and number.element_bits <= _NARROW_BITS:
        scales = ceil_div(spec.read_width, _SCALED_ELEMENTS) * _SCALE_BYTES
        return spec.read_width + scales + _ROPE_BYTES * (spec.key_width - spec.read_width)
    size = spec.row_bytes(number)
    if rules.latent_multiple_bytes > 1:
        return up(whole(size), rules.latent_multiple_bytes)
    return size.numerator if size.denominator == 1 else size


def state_bytes(spec: RecurrentCache, speculative_tokens: int) -> int:
    """Bytes of one state, with the convolution inputs that speculation adds."""
    if speculative_tokens and spec.mixer in _LOOK_AHEAD:
        spec = replace(spec, conv_columns=spec.conv_columns + speculative_tokens)
    return spec.fixed_bytes
