"""TensorRT-LLM's pool of states and tokens, of releases that take states out of the cache's own share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.domain.engines.ranks.pool import Pool
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from service.domain.engines.tensorrt_llm.pools import BlockPool


@dataclass(frozen=True, slots=True)
class StatePool(Pool):
    """Blocks of tokens beside `state_bytes` of states, which come first.

    What a batch of sequences as the engine expects them would take is `state_bytes` and `batch_bytes` of tokens: of a
    cache larger than both, states get the same part as they have of those. Where `batch_bytes` is None tokens get all
    that states leave.
    """

    tokens_pool: BlockPool
    state_bytes: int
    batch_bytes: int | None = None

    @property
    def blocks_of(self) -> int:  # type: ignore[override]  # as the blocks have it
        """Tokens of a block."""
        return self.tokens_pool.blocks_of

    @property
    def groups(self) -> int:  # type: ignore[override]  # states are counted for themselves
        """Pools of tokens."""
        return self.tokens_pool.groups

    def states(self, pool_bytes: int) -> int:
        """Those of the whole batch, and idle ones beside them in a cache that the batch would not fill."""
        if self.batch_bytes is None or pool_bytes <= self.state_bytes + self.batch_bytes:
            return self.state_bytes
        return pool_bytes - pool_bytes * self.batch_bytes // (self.state_bytes + self.batch_bytes)

    def _left(self, pool_bytes: int) -> int:
        """What states leave to tokens."""
        return max(0, pool_bytes - self.states(pool_bytes))

    def tokens(self, pool_bytes: int) -> int:
        """Tokens as printed."""
        return self.tokens_pool.tokens(self._left(pool_bytes))

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """Sequences of that length, by their tokens alone."""
        return self.tokens_pool.sequences(self._left(pool_bytes), context_tokens)

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """The same unrounded."""
        return self.tokens_pool.concurrency(self._left(pool_bytes), limit_tokens)

    def needed(self, sequences: int, context_tokens: int) -> int:
        """Bytes whose rest beside the states holds so many."""
        tokens = self.tokens_pool.needed(sequences, context_tokens)
        if self.batch_bytes is None or tokens <= self.batch_bytes:
            return tokens + self.state_bytes
        return ceil_div(tokens * (self.state_bytes + self.batch_bytes), self.batch_bytes)

    def allocated(self, pool_bytes: int) -> int:
        """Whole blocks of what states leave."""
        return self.tokens_pool.allocated(self._left(pool_bytes))

    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """As many tokens as there are blocks for."""
        return self.tokens_pool.longest(self._left(pool_bytes), at_most)
