"""Keys and values of every token: multi-head, grouped-query and multi-query attention alike."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec, heads_on_rank


@dataclass(frozen=True, slots=True)
class FullCache(CacheSpec):
    """Grows with the sequence for as long as it runs.

    `read_limit_tokens` is how many of the tokens kept a decode step reads at most, where the attention is sparse.
    """

    kv_heads: int
    key_width: int
    value_width: int
    read_limit_tokens: int | None = None

    kind: ClassVar[CacheKind] = CacheKind.FULL

    def tokens_read(self, context_tokens: int) -> int:
        """All of them, or as many as the sparse attention picks."""
        return context_tokens if self.read_limit_tokens is None else min(context_tokens, self.read_limit_tokens)

    def on_rank(self, tensor_parallel: int) -> Self:
        """Heads divided, then replicated."""
        return replace(self, kv_heads=heads_on_rank(self.kv_heads, tensor_parallel))
