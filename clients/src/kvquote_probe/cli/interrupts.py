"""Signals that end the probe: heard at once while it measures, and after the present row while it keeps one."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Stopped(BaseException):
    """The probe was told to end. Not an Exception, so that no measurement takes it for a fault of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number

    @property
    def status(self) -> int:
        """What a shell would report of a process that the signal ended: 130 for Ctrl-C, 143 for SIGTERM."""
        return 128 + self.number


class OutOfTime(BaseException):
    """The time that a measurement had is over."""


class Interrupts:
    """Raises Stopped where a signal comes, but not inside `held()`: there it waits for the end of the block."""

    def __init__(self) -> None:
        self._held = False
        self._came: int | None = None

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Listen; whatever handled the signals before does so again afterwards. What nohup ignores stays ignored."""
        listened = [number for number in ENDING if signal.getsignal(number) is not signal.SIG_IGN]
        former = {number: signal.signal(number, self._on_signal) for number in listened}
        try:
            yield
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Finish this block whatever comes."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        self._raise_what_came()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self._came = number
        if not self._held:
            self._raise_what_came()

    def _raise_what_came(self) -> None:
        if self._came is not None:
            raise Stopped(self._came)


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """Raise OutOfTime in this block once it has taken so long; None is for ever."""
    if seconds is None:
        yield
        return

    def on_alarm(_number: int, _frame: FrameType | None) -> None:
        raise OutOfTime

    former = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
