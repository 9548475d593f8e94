"""A device's caches as llama.cpp keeps them: windows only of families it knows, states in 32 bits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.domain.cache import CacheKind, FullCache, RecurrentCache

if TYPE_CHECKING:
    from service.domain.engines.llama_cpp.rules import Rules
    from service.domain.loads import CacheTerm, RankLoad

_WINDOWS = frozenset({CacheKind.SLIDING, CacheKind.CHUNKED})


def kept_load(load: RankLoad, rules: Rules, *, windows: bool) -> RankLoad:
    """The load with every cache as the build keeps it."""
    return replace(load, terms=tuple(_kept(term, rules, windows=windows) for term in load.terms))


def _kept(term: CacheTerm, rules: Rules, *, windows: bool) -> CacheTerm:
    spec = term.spec
    if spec.kind in _WINDOWS and not windows:
        full = FullCache(spec.kv_heads, spec.key_width, spec.value_width)
        return replace(term, spec=full, window_tokens=None)
    if isinstance(spec, RecurrentCache):
        wide = rules.constants.state_element_bytes
        own = replace(spec, state_element_bytes=wide, conv_element_bytes=wide)
        return replace(term, spec=own, fixed_bytes=term.layers * own.fixed_bytes)
    return term
