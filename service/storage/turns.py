"""Long work on the database in turns that are short, so that uploads are answered meanwhile.

SQLite has one writer at a time, and who waits for it does not stand in line but looks again now and then: a job that
takes the lock again at once would keep it for ever.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Final

from sqlalchemy import Connection, Engine

from service.storage.database import writing

_TURN_SECONDS: Final = 0.5
_FIRST_ROWS: Final = 32
# SQLite looks again after a tenth of a second at most.
_OTHERS_SECONDS: Final = 0.12


class Turns:
    """Transactions of one job, of so many `rows` each that they take about half a second."""

    def __init__(self, database: Engine, most_rows: int) -> None:
        self.rows = min(_FIRST_ROWS, most_rows)
        self._database = database
        self._most_rows = most_rows
        self._began = self._took = self._held = 0.0

    @contextmanager
    def take(self) -> Iterator[Connection]:
        """A transaction that may write, once others had a chance to."""
        if self._held > _TURN_SECONDS / 2:
            sleep(_OTHERS_SECONDS)
            self._held = 0.0
        with writing(self._database) as connection:
            self._began = monotonic()
            yield connection
            alone = connection.dialect.name == "sqlite"
        self._took = monotonic() - self._began
        self._held += self._took if alone else 0.0

    def is_over(self) -> bool:
        """Whether the present turn has had half of its time: the other half is for writing down what was found."""
        return monotonic() - self._began > _TURN_SECONDS / 2

    def did(self, rows: int) -> None:
        """Say of how many rows the last turn was: the next has as many as it had time for, at most twice as many."""
        if rows:
            in_time = int(rows * _TURN_SECONDS / max(self._took, 1e-6))
            self.rows = max(1, min(in_time, 2 * self.rows, self._most_rows))
