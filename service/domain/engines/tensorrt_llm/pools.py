"""TensorRT-LLM's blocks: one pool, or one for each width of window where windows were asked (accounting 5)."""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.engines.ranks.pool import Pool
from service.domain.units import ceil_div, down, up


@dataclass(frozen=True, slots=True)
class BlockPool(Pool):
    """Bytes of a token by window, in tokens; the longest sequence is the window of layers without one.

    Pools share the cache as one sequence of the longest length would fill them. A pool of the question's own size
    (`exact`) is not rounded down to blocks.
    """

    windows: tuple[tuple[int, int], ...]
    block_tokens: int
    exact: bool

    @property
    def blocks_of(self) -> int:  # type: ignore[override]  # tokens of a block are this pool's own
        """Tokens of a block."""
        return self.block_tokens

    @property
    def groups(self) -> int:  # type: ignore[override]  # follows from what the model keeps
        """Pools that the cache is divided into."""
        return len(self.windows)

    def _sequence_bytes(self) -> int:
        """Bytes of one sequence of the longest length in all pools, of which each gets its share."""
        return sum(own * each for own, each in self.windows)

    def _tokens(self, pool_bytes: int, window: int) -> int:
        """Tokens of the pool of a window."""
        found = pool_bytes * window // self._sequence_bytes()
        return found if self.exact else down(found, self.block_tokens)

    def tokens(self, pool_bytes: int) -> int:
        """Tokens of the pool of the longest sequences as printed: the last block counts though it is not all there."""
        widest = self.windows[-1][0]
        found = pool_bytes * widest // self._sequence_bytes()
        return found if self.exact else up(found, self.block_tokens)

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """By the pool that fills first."""
        return min(
            down(self._tokens(pool_bytes, window), self.block_tokens) // self._held(window, context_tokens)
            for window, _ in self.windows
        )

    def _held(self, window: int, context_tokens: int) -> int:
        """Tokens of a sequence's blocks; the widest pool holds sequences of any length."""
        widest = window == self.windows[-1][0]
        return up(context_tokens if widest else min(context_tokens, window), self.block_tokens)

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """The same unrounded."""
        return min(
            down(self._tokens(pool_bytes, window), self.block_tokens) / self._held(window, limit_tokens)
            for window, _ in self.windows
        )

    def needed(self, sequences: int, context_tokens: int) -> int:
        """Bytes whose share covers the fullest pool."""
        return max(
            ceil_div(sequences * self._held(window, context_tokens) * self._sequence_bytes(), window)
            for window, _ in self.windows
        )

    def longest(self, pool_bytes: int, at_most: int) -> int | None:  # noqa: ARG002  # the widest pool always fills
        """As many tokens as the widest pool has, or those of a window whose pool holds not even one."""
        filled = (down(self._tokens(pool_bytes, window), self.block_tokens) for window, _ in self.windows)
        widest = self.windows[-1][0]
        return min(
            tokens
            for tokens, (window, _) in zip(filled, self.windows, strict=True)
            if window == widest or tokens < up(window, self.block_tokens)
        )

    def allocated(self, pool_bytes: int) -> int:
        """Whole blocks of every pool."""
        return sum(self._tokens(pool_bytes, window) * size for window, size in self.windows)
