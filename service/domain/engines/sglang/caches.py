"""A rank's caches as SGLang keeps them: windows only where it has a pool for them, states in their own type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.domain.cache import CacheKind, FullCache, RecurrentCache
from service.domain.units import whole

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.engines.sglang.rules import Rules
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.precision import CacheFormat

_WINDOWS = frozenset({CacheKind.SLIDING, CacheKind.CHUNKED})
_EIGHT_BITS = 8


def has_window_pool(architecture: Architecture, rules: Rules, *, asked: bool | None) -> bool:
    """Whether windows have a pool of their own: by family, unless the question says otherwise."""
    if asked is False:
        return False
    return architecture.model_type in rules.windows.families


def kept_load(load: RankLoad, rules: Rules, cache: CacheFormat, *, windows: bool) -> RankLoad:
    """The load with every cache as the release keeps it."""
    indexed = any(term.spec.kind is CacheKind.INDEXER for term in load.terms)
    return replace(
        load, terms=tuple(_kept(term, rules, cache, windows=windows, indexed=indexed) for term in load.terms)
    )


def _kept(term: CacheTerm, rules: Rules, cache: CacheFormat, *, windows: bool, indexed: bool) -> CacheTerm:
    spec = term.spec
    if spec.kind in _WINDOWS and not windows:
        full = FullCache(spec.kv_heads, spec.key_width, spec.value_width)
        return replace(term, spec=full, window_tokens=None)
    if isinstance(spec, RecurrentCache):
        wide = replace(spec, state_element_bytes=rules.states.element_bytes)
        return replace(term, spec=wide, fixed_bytes=term.layers * wide.fixed_bytes)
    if indexed and spec.kind is CacheKind.LATENT and cache.element_bits == _EIGHT_BITS:
        row = whole(term.layers * rules.constants.indexed_narrow_bytes)
        return replace(term, bytes_per_token=row, growing_bytes=row)
    return term


def full_bytes(load: RankLoad) -> int:
    """Bytes of a token in layers that keep whole sequences."""
    return sum(term.growing_bytes for term in load.terms if term.window_tokens is None)


def window_bytes(load: RankLoad) -> int:
    """Bytes of a token in layers that keep a window."""
    return sum(term.growing_bytes for term in load.terms if term.window_tokens is not None)


def window_tokens(load: RankLoad) -> int:
    """The widest window."""
    return max((term.window_tokens for term in load.terms if term.window_tokens is not None), default=0)


def state_bytes(load: RankLoad) -> int:
    """Bytes of one sequence's recurrent states."""
    return sum(term.fixed_bytes for term in load.terms if term.spec.kind is CacheKind.RECURRENT)
