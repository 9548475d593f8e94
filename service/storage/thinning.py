"""Letting old rows go without unlearning: what samples rest on stays, and so does what still waits to be understood."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, and_, delete, func, or_, select
from sqlalchemy.orm import Session, sessionmaker

from service.storage.database import read_session
from service.storage.measurement_tables import LearningQueue, LearningSample, LearningState, Measurement
from service.storage.turns import Turns

_ROWS_AT_ONCE: Final = 5000


class Thinned(NamedTuple):
    """Rows that went, or would; and older ones that stay."""

    deleted: int
    kept: int


def thin(sessions: sessionmaker[Session], age: timedelta, *, dry_run: bool = False) -> Thinned:
    """Delete rows that arrived longer ago, in short turns, so that uploads go on meanwhile."""
    before = datetime.now(UTC) - age
    old = Measurement.received_at < before
    with read_session(sessions) as session:
        state = session.get(LearningState, 1)
        passed = 0 if state is None else state.seq
        free = and_(old, *_free(passed))
        count = _count(session, free)
        kept = _count(session, old) - count
    if not dry_run:
        _delete(sessions, free)
    return Thinned(count, kept)


def _free(passed: int) -> list[ColumnElement[bool]]:
    """What nothing needs any more: looked at, no sample, not queued, and not waiting for the catalog."""
    return [
        Measurement.seq <= passed,
        Measurement.verdict != "unmatched",
        Measurement.seq.not_in(select(LearningSample.seq)),
        Measurement.seq.not_in(select(LearningQueue.seq)),
    ]


def _count(session: Session, condition: Any) -> int:  # noqa: ANN401  # any condition
    return session.scalar(select(func.count()).select_from(Measurement).where(condition)) or 0


def _delete(sessions: sessionmaker[Session], free: ColumnElement[bool]) -> None:
    last, turns, found = 0, Turns(sessions, _ROWS_AT_ONCE), [0]
    while found:
        with turns.take() as session:
            asked = select(Measurement.seq).where(free, Measurement.seq > last).order_by(Measurement.seq)
            found = [*session.scalars(asked.limit(turns.rows))]
            session.execute(delete(Measurement).where(Measurement.seq.in_(found), or_(free)))
        turns.did(len(found))
        last = max(found, default=last)
