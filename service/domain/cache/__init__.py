"""The kinds of cache a layer can own, one module each, behind one small interface."""

from service.domain.cache.base import CacheKind, CacheSpec
from service.domain.cache.chunked import ChunkedCache
from service.domain.cache.cross import CrossCache
from service.domain.cache.full import FullCache
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.cache.sliding import SlidingCache

__all__ = [
    "CacheKind",
    "CacheSpec",
    "ChunkedCache",
    "CrossCache",
    "FullCache",
    "IndexerCache",
    "LatentCache",
    "Mixer",
    "RecurrentCache",
    "SlidingCache",
]
