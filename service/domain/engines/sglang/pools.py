"""SGLang's pools: one of tokens, one more for windows, one of recurrent states (accounting 3.2 to 3.4).

Ratios are kept as their two whole numbers: exact, and far quicker than fractions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.ranks.pool import Pool
from service.domain.units import ceil_div, down, up

if TYPE_CHECKING:
    from service.domain.engines.sglang.rules import StateRule

# Tokens of a pipeline stage none of whose layers keeps a cache of its own: another stage is the limit.
_UNBOUNDED = 1 << 62


@dataclass(frozen=True, slots=True)
class TokenPool(Pool):
    """Bytes of a token in full layers and in those with a window, and pages that tokens come in.

    `window_tokens` is what a sequence holds of the second pool, which has `ratio` of the first's tokens: so many for so
    many. A pool of the question's own size (`exact`) is not rounded down to pages.
    """

    full_bytes: int
    window_bytes: int
    window_tokens: int
    ratio: tuple[int, int]
    page_tokens: int
    exact: bool

    @property
    def blocks_of(self) -> int:  # type: ignore[override]  # tokens of a page are this pool's own
        """Tokens of a page."""
        return self.page_tokens

    @property
    def groups(self) -> int:  # type: ignore[override]  # follows from what the model keeps
        """One pool, or two where windows have their own."""
        return 2 if self.full_bytes and self.window_bytes else 1

    def _cells(self) -> tuple[int, int]:
        """Bytes that so many tokens of the first pool stand for, and how many."""
        windows, tokens = self.ratio
        if not self.full_bytes:
            return self.window_bytes, 1
        return tokens * self.full_bytes + windows * self.window_bytes, tokens

    def tokens(self, pool_bytes: int) -> int:
        """Tokens of the pool of full layers, of the other one where there are no full layers."""
        size, count = self._cells()
        found = pool_bytes * count // size if size else _UNBOUNDED
        return found if self.exact else down(found, self.page_tokens)

    def _window(self, tokens: int) -> int:
        """Tokens of the pool of windows."""
        windows, each = self.ratio
        return down(tokens * windows // each, self.page_tokens) if self.full_bytes else tokens

    def _held(self, context_tokens: int) -> int:
        """Tokens of the second pool that a sequence holds: its window, and the page that it grows into."""
        return up(min(context_tokens, self.window_tokens + self.page_tokens), self.page_tokens)

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """Sequences by the pool that fills first."""
        tokens = self.tokens(pool_bytes)
        found = tokens / up(limit_tokens, self.page_tokens) if self.full_bytes else float("inf")
        return min(found, self._window(tokens) / self._held(limit_tokens)) if self.window_bytes else found

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """Whole sequences by the pool that fills first."""
        tokens = self.tokens(pool_bytes)
        by_window = self._window(tokens) // self._held(context_tokens) if self.window_bytes else tokens
        if not self.full_bytes:
            return by_window
        by_tokens = tokens // up(context_tokens, self.page_tokens)
        return min(by_tokens, by_window) if self.window_bytes else by_tokens

    def needed(self, sequences: int, context_tokens: int) -> int:
        """Bytes of the tokens that the fuller pool asks for."""
        windows, each = self.ratio
        tokens = sequences * up(context_tokens, self.page_tokens) if self.full_bytes else 0
        if self.window_bytes:
            held = sequences * self._held(context_tokens)
            tokens = max(tokens, ceil_div(held * each, windows) if self.full_bytes else held)
        size, count = self._cells()
        return ceil_div(size * (tokens if self.exact else up(tokens, self.page_tokens)), count)

    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """The longest single sequence; None where windows are all there is, and one is held."""
        tokens = self.tokens(pool_bytes)
        window = self._window(tokens) if self.window_bytes else tokens
        if not self.full_bytes:
            return None if window >= self._held(at_most) else down(window, self.page_tokens)
        whole = down(tokens, self.page_tokens)
        return whole if not self.window_bytes or window >= self._held(whole) else min(whole, window)

    def allocated(self, pool_bytes: int) -> int:
        """Both pools; each has a page of spare slots besides, out of what the share of memory leaves free."""
        tokens = self.tokens(pool_bytes)
        return tokens * self.full_bytes + self._window(tokens) * self.window_bytes


class Drafts(NamedTuple):
    """States of drafted tokens: `tokens` of them for so many slots, in no more than `most` sets.

    `fixed_bytes` are taken before anything is split.
    """

    tokens: int = 0
    slots: int = 1
    most: int = _UNBOUNDED
    fixed_bytes: int = 0


NO_DRAFTS = Drafts()


@dataclass(frozen=True, slots=True)
class StatePool(Pool):
    """A pool of states beside the tokens: the share of the budget that the release splits off, in whole slots.

    A running sequence takes `slots_each`.
    """

    inner: TokenPool
    state_bytes: int
    rule: StateRule
    slots_each: int
    drafts: Drafts
    slots_asked: int | None

    @property
    def blocks_of(self) -> int:  # type: ignore[override]  # as the tokens beside it
        """Tokens of a page."""
        return self.inner.page_tokens

    @property
    def groups(self) -> int:  # type: ignore[override]  # one more than without states
        """The pools of tokens and that of states."""
        return self.inner.groups + 1

    def _share(self) -> tuple[int, int]:
        """The part of the budget that states get, as two whole numbers; beside a cache of a given size, its ratio."""
        states, tokens = self.rule.ratio
        return states, tokens if self.inner.exact else states + tokens

    def _spare(self) -> int:
        return self.rule.spare_slots * self.state_bytes * (1 + self.drafts.tokens)

    def slots(self, pool_bytes: int) -> int:
        """States that can be kept, without the spare ones."""
        if self.slots_asked is not None:
            return self.slots_asked
        part, of = self._share()
        drafts = self.drafts
        left = ((pool_bytes - drafts.fixed_bytes) * part - self._spare() * of) * drafts.slots
        return max(0, left // (of * self.state_bytes * (drafts.slots + drafts.tokens)))

    def _starts_at(self, slots: int) -> int:
        """The smallest budget with so many slots."""
        part, of = self._share()
        drafts = self.drafts
        size = slots * self.state_bytes * (drafts.slots + drafts.tokens) + self._spare() * drafts.slots
        return drafts.fixed_bytes + ceil_div(size * of, part * drafts.slots)

    def states(self, pool_bytes: int) -> int:
        """Bytes of all slots and drafts, the spare ones included."""
        slots = self.slots(pool_bytes)
        return self._states(slots) if slots or self.drafts.fixed_bytes else 0

    def _states(self, slots: int) -> int:
        drafted = min(self.drafts.most, slots // self.drafts.slots) * self.drafts.tokens
        return (slots + drafted) * self.state_bytes + self._spare() + self.drafts.fixed_bytes

    def _left(self, pool_bytes: int) -> int:
        """Bytes for tokens: all of a size that the question fixed."""
        return pool_bytes if self.inner.exact else max(0, pool_bytes - self.states(pool_bytes))

    def _at_least(self, pool_bytes: int) -> int:
        """Bytes for tokens that no larger budget falls below: one more slot takes a state's worth at once."""
        left = self._left(pool_bytes)
        if self.slots_asked is not None or self.inner.exact:
            return left
        first = self.slots(pool_bytes) + 1
        steps = range(first, first + (self.drafts.slots if self.drafts.tokens else 1))
        return max(0, min(left, *(self._starts_at(slots) - self._states(slots) for slots in steps)))

    def tokens(self, pool_bytes: int) -> int:
        """Tokens of what states leave."""
        return self.inner.tokens(self._left(pool_bytes))

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """By tokens or by slots, one of which each sequence needs; more of them where their number was asked."""
        found = self.inner.sequences(self._at_least(pool_bytes), context_tokens)
        if self.slots_asked is None:
            return min(found, self.slots(pool_bytes))
        return found if self.inner.exact else self._beyond(pool_bytes, context_tokens, found)

    def _beyond(self, pool_bytes: int, context_tokens: int, found: int) -> int:
        """Of so many sequences by tokens, those that would also have a state."""
        low, high = min(found, self.slots_asked or 0), found + 1
        while high - low > 1:
            middle = (low + high) // 2
            fits = self.needed(middle, context_tokens) <= pool_bytes
            low, high = (middle, high) if fits else (low, middle)
        return low

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """By tokens or by slots."""
        found = self.inner.concurrency(self._left(pool_bytes), limit_tokens)
        if self.slots_asked is None:
            return min(found, float(self.slots(pool_bytes)))
        held = self.sequences(pool_bytes, limit_tokens)
        return float(held) if found >= held + 1 else found

    def needed(self, sequences: int, context_tokens: int) -> int:
        """The smallest budget whose split holds so many."""
        tokens = self.inner.needed(sequences, context_tokens)
        if self.slots_asked is not None:
            return tokens + (0 if self.inner.exact else self._states(max(self.slots_asked, sequences)))
        low = max(tokens, self._starts_at(sequences)) - 1
        high = low + 1
        while self.sequences(high, context_tokens) < sequences:
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.sequences(middle, context_tokens) >= sequences else (middle, high)
        return high

    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """The longest single sequence of what states leave, where there is a state for it."""
        if not self.slots(pool_bytes):
            return 0
        if self.slots_asked is not None:
            return self.inner.longest(self._left(pool_bytes), at_most)
        return self.inner.longest(self._at_least(pool_bytes), at_most)

    def allocated(self, pool_bytes: int) -> int:
        """The pools of tokens alone; states are a part of their own."""
        return self.inner.allocated(self._left(pool_bytes))
