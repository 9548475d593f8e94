"""The largest number that passes: predict, bracket, bisect, confirm. No torch needed.

Growing one by one would take hundreds of attempts where this takes six, and growing in place would leave old blocks
behind and so measure fragmentation (probe 3.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor

from kvquote_probe.commands import MeasureError

_MOST_ATTEMPTS = 60
_AROUND = 0.1
"""The share by which a prediction is first believed to be off."""


@dataclass(frozen=True)
class Ceiling:
    """The last number that passed and the first that failed, each seen twice, and all attempts in their order."""

    passed: int
    failed: int
    attempts: tuple[tuple[int, bool], ...]


class _Trials:
    """Attempts, remembered; `again` forgets what was seen."""

    def __init__(self, attempt: Callable[[int], bool]) -> None:
        self._attempt = attempt
        self._seen: dict[int, bool] = {}
        self.made: list[tuple[int, bool]] = []

    def __call__(self, number: int, *, again: bool = False) -> bool:
        if again or number not in self._seen:
            if len(self.made) >= _MOST_ATTEMPTS:
                raise MeasureError("No ceiling was found: what passes once does not pass again. Is the card in use?")
            self._seen[number] = self._attempt(number)
            self.made.append((number, self._seen[number]))
        return self._seen[number]


def ceiling(predicted: int, attempt: Callable[[int], bool], precision: float) -> Ceiling:
    """The ceiling, to one sequence or to `precision` of it, whichever is coarser.

    Raises:
        MeasureError: not even 0 passes, or attempts contradict each other for ever.
    """
    trials = _Trials(attempt)
    low, high = _bracket(max(0, predicted), trials)
    while True:
        low, high = _bisected(low, high, trials, precision)
        if not trials(low, again=True):
            low, high = _below(low, trials)
        elif trials(high, again=True):
            low, high = _above(high, trials)
        else:
            return Ceiling(low, high, tuple(trials.made))


def _bracket(predicted: int, trials: _Trials) -> tuple[int, int]:
    low = floor(predicted * (1 - _AROUND))
    if not trials(low):
        return _below(low, trials)
    return _above(max(low + 1, ceil(predicted * (1 + _AROUND))), trials, low)


def _below(failed: int, trials: _Trials) -> tuple[int, int]:
    """From a number that fails down to one that passes."""
    if failed == 0:
        raise MeasureError("Not even the weights alone fit into the memory that may be used.")
    low = failed // 2
    return (low, failed) if trials(low) else _below(low, trials)


def _above(number: int, trials: _Trials, passed: int | None = None) -> tuple[int, int]:
    """From a number up to one that fails."""
    low = number if passed is None else passed
    while trials(number):
        low, number = number, number + ceil(number / 4) + 1
    return low, number


def _bisected(low: int, high: int, trials: _Trials, precision: float) -> tuple[int, int]:
    while high - low > max(1.0, precision * low):
        middle = (low + high) // 2
        low, high = (middle, high) if trials(middle) else (low, middle)
    return low, high
