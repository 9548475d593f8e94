"""The longest sequence of an engine that keeps more for itself the longer the sequences are that it starts for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_BY_LINE = 8
_ROUNDS = 64


def lasting(start: int, reached: int, reach: Callable[[int], int]) -> int:
    """The longest length that is held by an engine which is started for it, in tokens; 0 where none is.

    Started for `start`, it holds sequences of up to `reached`; `reach` says so of other lengths, and never more of a
    longer one, save where a release begins to read long prompts in chunks.
    """
    low, high = (start, reached) if reached >= start else (0, start - 1)
    failed = None if reached >= start else start
    before, guess = (start, reached), reached
    for tried in range(_ROUNDS):
        if low >= high:
            break
        guess = min(high, max(low + 1, guess if tried < _BY_LINE else (low + high + 1) // 2))
        now = guess, reach(guess)
        if now[1] < guess:
            failed, high = guess, guess - 1
        else:
            low, high = guess, now[1] if failed is None else min(now[1], failed - 1)
        before, guess = now, _crossing(before, now)
    return low


def _crossing(one: tuple[int, int], other: tuple[int, int]) -> int:
    """The length that reaches itself by the line through two lengths and what they reach; the last reached if none."""
    run, rise = other[0] - one[0], other[1] - one[1]
    return (one[1] * run - rise * one[0]) // (run - rise) if run and run != rise else other[1]
