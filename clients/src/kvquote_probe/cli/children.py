"""No process that the probe started outlives it: measurements end theirs, and this looks again."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from pathlib import Path

_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.02


def children() -> frozenset[int]:
    """Every process below this one that still runs."""
    return frozenset(_below(os.getpid()))


def end_children(standing: Collection[int]) -> list[int]:
    """End every process below this one but those that stood there before, asked first and killed then."""
    found = _left(standing)
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in _left(standing):
            _signal(child, number)
        until = time.monotonic() + _PATIENCE_SECONDS
        while (left := _left(standing)) and time.monotonic() < until:
            _collect(left)
            time.sleep(_LOOK_SECONDS)
    return found


def _left(standing: Collection[int]) -> list[int]:
    return [child for child in _below(os.getpid()) if child not in standing]


def _below(process: int) -> list[int]:
    """Children and theirs that still run, from /proc; none on systems without it."""
    found: list[int] = []
    for threads in Path(f"/proc/{process}/task").glob("*/children"):
        try:
            children = [int(child) for child in threads.read_text().split()]
        except (OSError, ValueError):
            continue
        for child in children:
            if not _has_ended(child):
                found.append(child)
            found += _below(child)
    return found


def _has_ended(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (OSError, IndexError):
        return True


def _signal(process: int, number: int) -> None:
    try:
        os.kill(process, number)
    except (ProcessLookupError, PermissionError):
        return


def _collect(ended: Iterable[int]) -> None:
    """Take the statuses of those that ended, so that none stays as a zombie."""
    for child in ended:
        # One that is below a child of ours is not ours to wait for.
        with suppress(ChildProcessError):
            os.waitpid(child, os.WNOHANG)
