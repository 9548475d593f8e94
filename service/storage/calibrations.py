"""What was learned, as it is stored: each value from the revision that brought it until the one that ended it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Row, and_, func, or_, select, true, tuple_
from sqlalchemy.orm import Session

from service.domain.calibration import NOTHING_LEARNED, Calibration, Learned, Quantity
from service.storage.canonical import compact_json
from service.storage.filters import among
from service.storage.tables import CalibrationRevision, CalibrationValue, CatalogRevision

_KNOWN: Final = frozenset(Quantity)


def calibration_revision(session: Session) -> int:
    """The newest revision, 0 before anything was learned."""
    return session.scalar(select(func.max(CalibrationRevision.id))) or 0


class Revisions(NamedTuple):
    """The newest of each kind, 0 before the first."""

    catalog: int
    calibration: int
    trust: int


_NEWEST: Final = (
    "SELECT (SELECT max(id) FROM catalog_revision), (SELECT max(id) FROM calibration_revision),"
    " (SELECT max(id) FROM trust_decision)"
)


def newest_revisions(connection: Connection) -> Revisions:
    """What a process answers from, in one look.

    As text, since every worker looks every second: what SQLAlchemy builds a statement with would be touched by each,
    and so copied into each, which takes 4 MiB of a worker's memory.
    """
    return Revisions(*(found or 0 for found in connection.exec_driver_sql(_NEWEST).one()))


def both_revisions_at(session: Session, moment: datetime) -> tuple[int | None, int]:
    """The newest revisions made at or before a moment: None and 0 before the first."""
    catalog = select(func.max(CatalogRevision.id)).where(CatalogRevision.made_at <= moment).scalar_subquery()
    learned = select(func.max(CalibrationRevision.id)).where(CalibrationRevision.made_at <= moment).scalar_subquery()
    found = session.execute(select(catalog, learned)).one()
    return found[0], found[1] or 0


def calibration_revision_at(session: Session, moment: datetime) -> int:
    """The newest revision made at or before a moment, 0 before the first."""
    asked = select(CalibrationRevision.id).where(CalibrationRevision.made_at <= moment)
    return session.scalar(asked.order_by(CalibrationRevision.id.desc()).limit(1)) or 0


def read_calibration(session: Session, revision: int) -> Calibration:
    """What quotes may use of what was known at a revision."""
    made = session.get(CalibrationRevision, revision) if revision else None
    if made is None:
        return NOTHING_LEARNED
    asked = select(CalibrationValue.content).where(CalibrationValue.usable, known_at(revision))
    values = [learned_from(content) for content in session.scalars(asked)]
    known = {(value.quantity, value.key): value for value in values if value is not None}
    return Calibration(made.id, made.catalog_revision, known)


def known_at(revision: int) -> ColumnElement[bool]:
    """Whether a value was known at a revision."""
    ended = CalibrationValue.ended_revision
    return and_(CalibrationValue.revision <= revision, or_(ended.is_(None), ended > revision))


def written(learned: Learned) -> str:
    """A learned value as JSON; equal values are equal texts."""
    document = {**asdict(learned), "newest": learned.newest.isoformat()}
    return compact_json(dict(sorted(document.items())))


def learned_from(content: str) -> Learned | None:
    """A learned value from JSON; None for a quantity that a newer release has learned."""
    document = json.loads(content)
    if document["quantity"] not in _KNOWN:
        return None
    document["quantity"] = Quantity(document["quantity"])
    document["newest"] = datetime.fromisoformat(document["newest"])
    document["seen"] = {name: tuple(words) for name, words in document["seen"].items()}
    return Learned(**document)


@dataclass(frozen=True, slots=True)
class ValueFilter:
    """What a page of values is asked for; None asks for anything. `after` is where the last page ended.

    At one revision, or with `history` of all of them.
    """

    revision: int
    quantities: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    engines: Sequence[str] | None = None
    rungs: Sequence[str] | None = None
    usable: bool | None = None
    history: bool = False
    after: tuple[str, str, int] | None = None


def find_values(session: Session, asked: ValueFilter, count: int) -> Sequence[Row[Any]]:
    """At most `count` of (value, when it became known, when it ended), in the order of quantity, key and revision."""
    value, ended = CalibrationValue, select(CalibrationRevision.id, CalibrationRevision.made_at).subquery()
    statement = (
        select(value, CalibrationRevision.made_at, ended.c.made_at)
        .join(CalibrationRevision, CalibrationRevision.id == value.revision)
        .outerjoin(ended, ended.c.id == value.ended_revision)
        .where(value.revision <= asked.revision if asked.history else known_at(asked.revision), *_conditions(asked))
    )
    return session.execute(statement.order_by(value.quantity, value.key, value.revision).limit(count)).all()


def _conditions(asked: ValueFilter) -> list[ColumnElement[bool]]:
    value = CalibrationValue
    conditions = among(
        (value.quantity, asked.quantities),
        (value.gpu, asked.gpus),
        (value.engine, asked.engines),
        (value.rung, asked.rungs),
    )
    conditions.append(true() if asked.usable is None else value.usable.is_(asked.usable))
    if asked.after is not None:
        conditions.append(tuple_(value.quantity, value.key, value.revision) > asked.after)
    return conditions
