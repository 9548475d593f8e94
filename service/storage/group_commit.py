"""Many small writes as one transaction: whoever comes first writes for all that wait, and the others find theirs done.

SQLite has one writer at a time, and its busy handler is unfair: with 32 threads that each commit for themselves the
unlucky wait for seconds (performance A4). Here they stand in line, and a line costs one flush of the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Generic, TypeVar

Job = TypeVar("Job")
Result = TypeVar("Result")


class _Waiting(Generic[Job, Result]):
    """A job, and its outcome once `done`."""

    __slots__ = ("done", "error", "job", "result")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.done = False
        self.result: Result | None = None
        self.error: Exception | None = None


class GroupCommit(Generic[Job, Result]):
    """Runs jobs by `write`, which takes several, commits them together and returns a result for each.

    Needs no thread of its own, so that it may be made before a server forks. At most `most` go into one transaction.
    """

    def __init__(self, write: Callable[[Sequence[Job]], Sequence[Result]], most: int = 64) -> None:
        self._write = write
        self._most = most
        self._turn = Lock()
        self._joining = Lock()
        self._line: list[_Waiting[Job, Result]] = []

    def run(self, job: Job) -> Result:
        """The job's result, once it is committed; raises what `write` raised for those it was written with."""
        mine: _Waiting[Job, Result] = _Waiting(job)
        with self._joining:
            self._line.append(mine)
        with self._turn:
            while not mine.done:
                self._write_next()
        if mine.error is not None:
            raise mine.error
        return mine.result  # type: ignore[return-value]  # done without an error, so it is there

    def _write_next(self) -> None:
        with self._joining:
            group, self._line = self._line[: self._most], self._line[self._most :]
        try:
            results = self._write([waiting.job for waiting in group])
        except Exception as error:  # noqa: BLE001  # whatever it was, nobody may wait for ever
            for waiting in group:
                waiting.error = error
        else:
            for waiting, result in zip(group, results, strict=True):
                waiting.result = result
        for waiting in group:
            waiting.done = True
