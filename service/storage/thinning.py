"""Letting old rows go without unlearning: what samples rest on stays, and so does what still waits to be understood."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, and_, delete, func, or_, select

from service.storage.database import reading
from service.storage.learned_values import learning_state
from service.storage.measurement_tables import LEARNING_QUEUE, LEARNING_SAMPLE, MEASUREMENT
from service.storage.turns import Turns

_ROWS_AT_ONCE: Final = 5000


class Thinned(NamedTuple):
    """Rows that went, or would; and older ones that stay."""

    deleted: int
    kept: int


def thin(database: Engine, age: timedelta, *, dry_run: bool = False) -> Thinned:
    """Delete rows that arrived longer ago, in short turns, so that uploads go on meanwhile."""
    before = datetime.now(UTC) - age
    old = MEASUREMENT.c.received_at < before
    with reading(database) as connection:
        state = learning_state(connection)
        passed = 0 if state is None else state.seq
        free = and_(old, *_free(passed))
        count = _count(connection, free)
        kept = _count(connection, old) - count
    if not dry_run:
        _delete(database, free)
    return Thinned(count, kept)


def _free(passed: int) -> list[ColumnElement[bool]]:
    """What nothing needs any more: looked at, no sample, not queued, and not waiting for the catalog."""
    return [
        MEASUREMENT.c.seq <= passed,
        MEASUREMENT.c.verdict != "unmatched",
        MEASUREMENT.c.seq.not_in(select(LEARNING_SAMPLE.c.seq)),
        MEASUREMENT.c.seq.not_in(select(LEARNING_QUEUE.c.seq)),
    ]


def _count(connection: Connection, condition: Any) -> int:  # noqa: ANN401  # any condition
    return connection.scalar(select(func.count()).select_from(MEASUREMENT).where(condition)) or 0


def _delete(database: Engine, free: ColumnElement[bool]) -> None:
    last, turns, found = 0, Turns(database, _ROWS_AT_ONCE), [0]
    while found:
        with turns.take() as connection:
            asked = select(MEASUREMENT.c.seq).where(free, MEASUREMENT.c.seq > last).order_by(MEASUREMENT.c.seq)
            found = [*connection.scalars(asked.limit(turns.rows))]
            connection.execute(delete(MEASUREMENT).where(MEASUREMENT.c.seq.in_(found), or_(free)))
        turns.did(len(found))
        last = max(found, default=last)
