"""A rank's caches as SGLang keeps them: windows only where it has a pool for them, states in their own type."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.cache.full import FullCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.units import whole

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.engines.sglang.rules import Rules
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.precision import CacheFormat

_WINDOWS = frozenset({CacheKind.SLIDING, CacheKind.CHUNKED})
_EIGHT_BITS = 8


def has_window_pool(architecture: Architecture, rules: Rules, *, asked: bool | None, paged: bool) -> bool:
    """Whether windows have a pool of their own: by family, unless the question or a paged kernel says otherwise."""
    family = architecture.model_type
    if architecture.compressed:
        return True
    if asked is False or (paged and family in rules.windows.not_paged):
        return False
    return family in rules.windows.families


def kept_load(
    load: RankLoad, architecture: Architecture, rules: Rules, cache: CacheFormat, *, windows: bool
) -> RankLoad:
    """The load with every cache as the release keeps it."""
    indexed = any(term.spec.kind is CacheKind.INDEXER for term in load.terms)
    terms = [_kept(term, rules, cache, windows=windows, indexed=indexed) for term in load.terms]
    if architecture.model_type in rules.constants.unshared:
        terms = _unshared(terms, architecture)
    return load._replace(terms=tuple(terms))


def _unshared(terms: list[CacheTerm], architecture: Architecture) -> list[CacheTerm]:
    """The terms with a cache for each layer that would read another's; kinds of layers alternate all through."""
    owned = sum(len(owners.layers) for owners in architecture.caches)
    found: list[CacheTerm] = []
    for spec in dict.fromkeys(term.spec for term in terms):
        first, *others = (term for term in terms if term.spec == spec)
        layers = (first.layers + sum(term.layers for term in others)) * architecture.layers // owned
        layers -= sum(term.layers for term in others)
        row = first.growing_bytes // first.layers * layers
        found += [replace(first, layers=layers, bytes_per_token=row, growing_bytes=row, readers=layers), *others]
    return found


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
