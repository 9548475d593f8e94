"""One compressed vector per token that all heads read, as multi-head latent attention keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec
from service.domain.units import exact_div

if TYPE_CHECKING:
    from fractions import Fraction

    from service.domain.precision import CacheFormat


@dataclass(frozen=True, slots=True)
class LatentCache(CacheSpec):
    """Vectors of `key_width` elements, of which the first `read_width` serve as the value.

    `tokens_per_row` tokens share one vector (1 but for compressed attention); a decode step reads the vectors of at
    most `read_limit_tokens` tokens where an indexer picks them.
    """

    key_width: int
    read_width: int
    tokens_per_row: int = 1
    read_limit_tokens: int | None = None
    expanded_width: int = 0
    """Elements of a head's key and value together as a prefill computes them; 0 where it computes them absorbed."""
    kv_heads: int = field(default=1, init=False)
    value_width: int = field(default=0, init=False)

    kind: ClassVar[CacheKind] = CacheKind.LATENT

    def tokens_held(self, context_tokens: int) -> int:
        """Tokens that a finished vector stands for; the rest still wait for theirs."""
        return context_tokens - context_tokens % self.tokens_per_row

    def tokens_read(self, context_tokens: int) -> int:
        """All that are held, or as many as the indexer picks."""
        held = self.tokens_held(context_tokens)
        return held if self.read_limit_tokens is None else min(held, self.read_limit_tokens)

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:  # noqa: ARG002  # no window
        """Those that finished vectors stand for."""
        return prefix_tokens - prefix_tokens % self.tokens_per_row

    def tokens_shared_read(self, context_tokens: int, prefix_tokens: int) -> int:
        """None where an indexer picks them: each sequence picks its own."""
        held = self.tokens_held(context_tokens)
        picks = self.read_limit_tokens is not None and self.read_limit_tokens < held
        return 0 if picks else self.tokens_shared(context_tokens, prefix_tokens)

    def row_bytes(self, number: CacheFormat) -> Fraction | int:
        """A token's share of its vector."""
        rope = self.key_width - self.read_width
        return exact_div(number.latent_bytes(self.read_width, rope), self.tokens_per_row)

    def score_flops(self, query_heads: int) -> int:
        """The absorbed form: scores over the whole vector, values over its first part (accounting 8.1)."""
        return 2 * query_heads * (self.key_width + self.read_width) // self.tokens_per_row

    def prefill_flops(self, query_heads: int) -> int:
        """Keys and values are expanded for a prefill, whose scores cost their own width (accounting 8.2)."""
        return 2 * query_heads * self.expanded_width if self.expanded_width else self.score_flops(query_heads)

    def on_rank(self, tensor_parallel: int) -> Self:  # noqa: ARG002  # the same whole vector on every rank
        """Never divided: every rank needs the whole vector for its heads."""
        return self
