"""Keys and values of the chunk that the last token stands in: attention never looks back over a chunk's start."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec, heads_on_rank


@dataclass(frozen=True, slots=True)
class ChunkedCache(CacheSpec):
    """Room for one chunk of `window_tokens`; an engine without such a cache charges it as full (accounting 2.3)."""

    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int

    kind: ClassVar[CacheKind] = CacheKind.CHUNKED

    def tokens_read(self, context_tokens: int) -> int:
        """From the start of the last token's chunk, itself included (accounting 8.1)."""
        return (context_tokens - 1) % self.window_tokens + 1 if context_tokens else 0

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:
        """Those in the chunk of the last token."""
        start = (context_tokens - 1) // self.window_tokens * self.window_tokens if context_tokens else 0
        return max(0, prefix_tokens - start)

    def on_rank(self, tensor_parallel: int) -> Self:
        """Heads divided, then replicated."""
        return replace(self, kv_heads=heads_on_rank(self.kv_heads, tensor_parallel))
