"""How an engine divides the bytes of a rank's cache: the one interface behind tokens, sequences and rounding."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Pool(ABC):
    """A rank's cache of any size; sizes in bytes, lengths in tokens of one sequence."""

    blocks_of: int | None = None
    """Tokens of a block where the engine counts in blocks."""
    groups: int | None = None
    """Pools that the cache is divided into, None where there is no such thing."""

    @abstractmethod
    def tokens(self, pool_bytes: int) -> int:
        """Tokens that the engine prints for a cache of that size."""

    @abstractmethod
    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """Sequences of that length that it holds at once; never fewer of a larger cache or a shorter length."""

    @abstractmethod
    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """The same unrounded."""

    @abstractmethod
    def needed(self, sequences: int, context_tokens: int) -> int:
        """The smallest cache that holds so many."""

    @abstractmethod
    def allocated(self, pool_bytes: int) -> int:
        """What the engine allocates for keys and values out of that budget, never more of it."""

    def states(self, pool_bytes: int) -> int:  # noqa: ARG002  # of engines without a pool of states
        """What it allocates for recurrent state out of the budget."""
        return 0

    def blocks(self, pool_bytes: int) -> int | None:
        """Blocks of the pool; None where the engine counts in tokens."""
        return None if self.blocks_of is None else self.tokens(pool_bytes) // self.blocks_of

    def limit_needed(self, limit_tokens: int) -> int:
        """The smallest cache that the engine would start with for sequences of that length, where it insists on one."""
        return self.needed(1, limit_tokens)

    def holds_limit(self, pool_bytes: int, limit_tokens: int) -> bool:
        """Whether the engine would start for sequences of that length, where it insists on one."""
        return self.limit_needed(limit_tokens) <= pool_bytes

    @abstractmethod
    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """The longest single sequence that it holds; None where even one of `at_most` tokens takes no more."""
