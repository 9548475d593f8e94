"""A device's caches as llama.cpp keeps them: windows of known families, states in 32 bits, vectors by build."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.cache.full import FullCache
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache

if TYPE_CHECKING:
    from service.domain.engines.llama_cpp.rules import Rules
    from service.domain.loads import CacheTerm, RankLoad

_WINDOWS = frozenset({CacheKind.SLIDING, CacheKind.CHUNKED})


def kept_load(load: RankLoad, rules: Rules, *, windows: bool) -> RankLoad:
    """The load with every cache as the build keeps it."""
    kept = [_kept(term, rules, windows=windows) for term in load.terms]
    vectors = [term for term in load.terms if isinstance(term.spec, LatentCache)]
    return load._replace(terms=tuple(_indexed(term, vectors[0]) if vectors else term for term in kept))


def _kept(term: CacheTerm, rules: Rules, *, windows: bool) -> CacheTerm:
    spec = term.spec
    if spec.kind in _WINDOWS and not windows:
        full = FullCache(spec.kv_heads, spec.key_width, spec.value_width)
        return replace(term, spec=full, window_tokens=None)
    if isinstance(spec, RecurrentCache):
        wide = rules.constants.state_element_bytes
        own = replace(spec, state_element_bytes=wide, conv_element_bytes=wide)
        return replace(term, spec=own, fixed_bytes=term.layers * own.fixed_bytes)
    if isinstance(spec, LatentCache):
        return _grown(term, _elements(term, spec, rules.latent.kept), spec.key_width)
    return term


def _elements(term: CacheTerm, spec: LatentCache, kept: str) -> int:
    """Elements that a layer keeps of a token: keys and values of every head, the vector and its values, or it alone."""
    if kept == "heads":
        return term.score_flops // (term.readers * spec.score_flops(1)) * spec.expanded_width
    return spec.key_width + (spec.read_width if kept == "values" else 0)


def _indexed(term: CacheTerm, vectors: CacheTerm) -> CacheTerm:
    """Keys of an indexer in the type of the vectors beside them."""
    spec = term.spec
    if not isinstance(spec, IndexerCache):
        return term
    row = vectors.growing_bytes // vectors.layers
    return _sized(term, row * spec.key_width // vectors.spec.key_width * term.layers)


def _grown(term: CacheTerm, elements: int, of: int) -> CacheTerm:
    return _sized(term, term.growing_bytes * elements // of)


def _sized(term: CacheTerm, size: int) -> CacheTerm:
    return replace(term, bytes_per_token=size, growing_bytes=size)
