"""What computing costs, without what a busy machine and the heap of a whole suite add to it."""

import gc
from collections.abc import Callable
from time import thread_time
from typing import TypeVar

Answer = TypeVar("Answer")
TRIES = 3


def least_seconds(call: Callable[[], object]) -> float:
    """The processor time of the cheapest of several calls."""
    return min(_timed(call)[1] for _ in range(TRIES))


def quickly(call: Callable[[], Answer], seconds: float = 1) -> Answer:
    """What a call answers, which has to take less than so many seconds of computing in one of several tries.

    A machine that does something else is slow once, a search that goes back is slow each time.
    """
    for _ in range(TRIES):
        answer, took_seconds = _timed(call)
        if took_seconds < seconds:
            return answer
    raise AssertionError(f"takes {seconds} s of computing or more, each of {TRIES} times")


def _timed(call: Callable[[], Answer]) -> tuple[Answer, float]:
    # A worker of the suite holds a million objects. To look through them takes half a second and is none of the call's.
    collects = gc.isenabled()
    gc.disable()
    started = thread_time()
    try:
        return call(), thread_time() - started
    finally:
        if collects:
            gc.enable()
