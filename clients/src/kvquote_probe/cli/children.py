"""No process that the probe started outlives it: measurements end theirs, and this looks again."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

_PATIENCE_SECONDS = 1.0
_LOOK_SECONDS = 0.02


def end_children() -> list[int]:
    """End every process below this one, asked first and killed then; those that there were."""
    found = _below(os.getpid())
    for number in (signal.SIGTERM, signal.SIGKILL):
        for child in _below(os.getpid()):
            _signal(child, number)
        until = time.monotonic() + _PATIENCE_SECONDS
        while _below(os.getpid()) and time.monotonic() < until:
            _collect()
            time.sleep(_LOOK_SECONDS)
    return found


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


def _collect() -> None:
    """Take the statuses of those that ended, so that none stays as a zombie."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        return
