"""What every kind of cache answers: its bytes for a token, how many tokens it keeps and reads, its share on a rank."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum, unique
from typing import TYPE_CHECKING, ClassVar, Self

if TYPE_CHECKING:
    from fractions import Fraction

    from service.domain.precision import CacheFormat


@unique
class CacheKind(StrEnum):
    """The kinds of the wire contract."""

    FULL = "full"
    SLIDING = "sliding"
    CHUNKED = "chunked"
    LATENT = "latent"
    INDEXER = "indexer"
    CROSS = "cross"
    RECURRENT = "recurrent"


class CacheSpec(ABC):
    """The cache of one layer, for one sequence.

    A layer holds `row_bytes` for each token that `tokens_held` counts and `fixed_bytes` however long the sequence is.
    """

    __slots__ = ()

    kind: ClassVar[CacheKind]
    attends: ClassVar[bool] = True
    """Whether query heads score its tokens; an indexer and recurrent state serve attention or stand in for it."""

    kv_heads: int
    """Heads that the cache is divided by under tensor parallelism; 1 where one vector serves all heads."""
    key_width: int
    """Elements of a head's key."""
    value_width: int
    """Elements of a head's value; 0 where values are read from the keys."""

    @property
    def window_tokens(self) -> int | None:
        """Tokens kept at most, or None where all are."""
        return None

    @property
    def fixed_bytes(self) -> int:
        """Bytes a sequence takes however long it is."""
        return 0

    @property
    def carried(self) -> tuple[str, int]:
        """What computes a recurrent state, and its elements: none of a cache of tokens."""
        return "", 0

    def tokens_held(self, context_tokens: int) -> int:
        """Tokens whose rows a sequence of that length keeps."""
        return context_tokens if self.window_tokens is None else min(context_tokens, self.window_tokens)

    def tokens_read(self, context_tokens: int) -> int:
        """Tokens whose rows one decode step of that sequence reads."""
        return self.tokens_held(context_tokens)

    def row_bytes(self, number: CacheFormat) -> Fraction | int:
        """Bytes of one token in one layer, exact: keys and values are rows of their own (accounting 4.1)."""
        keys, values = self.kv_heads * self.key_width, self.kv_heads * self.value_width
        return number.row_bytes(keys) + number.value_bytes(values)

    def sequence_bytes(self, number: CacheFormat, context_tokens: int) -> Fraction | int:
        """Bytes of one sequence of that length in one layer, exact and without pages."""
        return self.tokens_held(context_tokens) * self.row_bytes(number) + self.fixed_bytes

    def score_flops(self, query_heads: int) -> int:
        """Floating-point operations of one query token against one cached token: two for each multiplication.

        Where values are read from the keys, a value is as wide as its key.
        """
        return 2 * query_heads * (self.key_width + (self.value_width or self.key_width))

    def prefill_flops(self, query_heads: int) -> int:
        """The same while a prompt is read."""
        return self.score_flops(query_heads)

    def tokens_shared(self, context_tokens: int, prefix_tokens: int) -> int:
        """Of the tokens held of a sequence, those of a prefix that all sequences share."""
        gone = 0 if self.window_tokens is None else max(0, context_tokens - self.window_tokens)
        return max(0, prefix_tokens - gone)

    def tokens_shared_read(self, context_tokens: int, prefix_tokens: int) -> int:
        """Of the tokens that a decode step reads, those that it reads once for all sequences."""
        return min(self.tokens_shared(context_tokens, prefix_tokens), self.tokens_read(context_tokens))

    @abstractmethod
    def on_rank(self, tensor_parallel: int) -> Self:
        """The share of one tensor-parallel rank."""


def heads_on_rank(kv_heads: int, tensor_parallel: int) -> int:
    """KV heads a rank holds: divided evenly, and replicated once there are more ranks than heads (accounting 1)."""
    return max(1, kv_heads // tensor_parallel)
