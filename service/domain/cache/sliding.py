"""Keys and values of the last `window_tokens` tokens."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec, heads_on_rank


@dataclass(frozen=True, slots=True)
class SlidingCache(CacheSpec):
    """Grows up to the window and no further; an engine that keeps the whole sequence charges it as full."""

    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int

    kind: ClassVar[CacheKind] = CacheKind.SLIDING

    def on_rank(self, tensor_parallel: int) -> Self:
        """Heads divided, then replicated."""
        return replace(self, kv_heads=heads_on_rank(self.kv_heads, tensor_parallel))
