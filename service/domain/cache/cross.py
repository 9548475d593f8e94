"""Keys and values of an encoder's output, computed once for a sequence and read by every token of the decoder."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec, heads_on_rank


@dataclass(frozen=True, slots=True)
class CrossCache(CacheSpec):
    """As large for the first token as for the last: room for the longest output that the encoder gives."""

    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int

    kind: ClassVar[CacheKind] = CacheKind.CROSS

    def tokens_held(self, context_tokens: int) -> int:  # noqa: ARG002  # the encoder's tokens, not the decoder's
        """The encoder's tokens."""
        return self.window_tokens

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:  # noqa: ARG002  # each has its own
        """None."""
        return 0

    def on_rank(self, tensor_parallel: int) -> Self:
        """Heads divided, then replicated."""
        return replace(self, kv_heads=heads_on_rank(self.kv_heads, tensor_parallel))
