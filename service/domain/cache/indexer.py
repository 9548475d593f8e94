"""The small key by which sparse attention picks the tokens worth reading; kept beside the layer's own cache."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar, Self

from service.domain.cache.base import CacheKind, CacheSpec
from service.domain.units import ceil_div, exact_div

if TYPE_CHECKING:
    from service.domain.precision import CacheFormat

_SCALE_BYTES, _SCALED_ELEMENTS = 4, 128


@dataclass(frozen=True, slots=True)
class IndexerCache(CacheSpec):
    """One key of 8-bit elements with a 32-bit scale for 128 of them, for every `tokens_per_row` tokens.

    `element_bytes` are those of a family whose keys have no scales.
    """

    key_width: int
    tokens_per_row: int = 1
    element_bytes: int | None = None
    kv_heads: int = field(default=1, init=False)
    value_width: int = field(default=0, init=False)

    kind: ClassVar[CacheKind] = CacheKind.INDEXER
    attends: ClassVar[bool] = False

    def tokens_held(self, context_tokens: int) -> int:
        """Tokens that a finished key stands for."""
        return context_tokens - context_tokens % self.tokens_per_row

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:  # noqa: ARG002  # no window
        """Those that finished keys stand for."""
        return prefix_tokens - prefix_tokens % self.tokens_per_row

    def row_bytes(self, number: CacheFormat) -> Fraction | int:  # noqa: ARG002  # has a format of its own
        """132 B for 128 elements, whatever the rest of the cache is kept in (accounting 2.1)."""
        scaled = self.key_width + _SCALE_BYTES * ceil_div(self.key_width, _SCALED_ELEMENTS)
        size = scaled if self.element_bytes is None else self.key_width * self.element_bytes
        return exact_div(size, self.tokens_per_row)

    def score_flops(self, query_heads: int) -> int:
        """Scores alone, of the indexer's own heads."""
        return 2 * query_heads * self.key_width // self.tokens_per_row

    def on_rank(self, tensor_parallel: int) -> Self:  # noqa: ARG002  # the same keys on every rank
        """Never divided: every rank picks the same tokens."""
        return self
