"""What was learned, as it is stored: each value from the revision that brought it until the one that ended it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, Engine, Row, and_, func, or_, select, true, tuple_

from service.domain.calibration import NOTHING_LEARNED, Calibration, Learned, Quantity
from service.storage.canonical import compact_json
from service.storage.database import look
from service.storage.filters import among
from service.storage.tables import CALIBRATION_REVISION, CALIBRATION_VALUE, CATALOG_REVISION

_KNOWN: Final = frozenset(Quantity)


def calibration_revision(connection: Connection) -> int:
    """The newest revision, 0 before anything was learned."""
    return connection.scalar(select(func.max(CALIBRATION_REVISION.c.id))) or 0


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
    """What a process answers from."""
    return Revisions(*(found or 0 for found in connection.exec_driver_sql(_NEWEST).one()))


def look_at_revisions(database: Engine) -> Revisions:
    """The same in one look, for a timer."""
    return Revisions(*(found or 0 for found in look(database, _NEWEST)))


def both_revisions_at(connection: Connection, moment: datetime) -> tuple[int | None, int]:
    """The newest revisions made at or before a moment: None and 0 before the first."""
    catalog = select(func.max(CATALOG_REVISION.c.id)).where(CATALOG_REVISION.c.made_at <= moment).scalar_subquery()
    learned = (
        select(func.max(CALIBRATION_REVISION.c.id)).where(CALIBRATION_REVISION.c.made_at <= moment).scalar_subquery()
    )
    found = connection.execute(select(catalog, learned)).one()
    return found[0], found[1] or 0


def calibration_revision_at(connection: Connection, moment: datetime) -> int:
    """The newest revision made at or before a moment, 0 before the first."""
    asked = select(CALIBRATION_REVISION.c.id).where(CALIBRATION_REVISION.c.made_at <= moment)
    return connection.scalar(asked.order_by(CALIBRATION_REVISION.c.id.desc()).limit(1)) or 0


def read_calibration(connection: Connection, revision: int) -> Calibration:
    """What quotes may use of what was known at a revision."""
    of_revision = select(CALIBRATION_REVISION).where(CALIBRATION_REVISION.c.id == revision)
    made = connection.execute(of_revision).one_or_none() if revision else None
    if made is None:
        return NOTHING_LEARNED
    asked = select(CALIBRATION_VALUE.c.content).where(CALIBRATION_VALUE.c.usable, known_at(revision))
    values = [learned_from(content) for content in connection.scalars(asked)]
    known = {(value.quantity, value.key): value for value in values if value is not None}
    return Calibration(made.id, made.catalog_revision, known)


def known_at(revision: int) -> ColumnElement[bool]:
    """Whether a value was known at a revision."""
    ended = CALIBRATION_VALUE.c.ended_revision
    return and_(CALIBRATION_VALUE.c.revision <= revision, or_(ended.is_(None), ended > revision))


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


def find_values(connection: Connection, asked: ValueFilter, count: int) -> Sequence[Row[Any]]:
    """At most `count` values with `known_from` and `known_until`, in the order of quantity, key and revision."""
    value, began, ended = CALIBRATION_VALUE.c, CALIBRATION_REVISION.alias(), CALIBRATION_REVISION.alias()
    statement = (
        select(CALIBRATION_VALUE, began.c.made_at.label("known_from"), ended.c.made_at.label("known_until"))
        .join(began, began.c.id == value.revision)
        .outerjoin(ended, ended.c.id == value.ended_revision)
        .where(value.revision <= asked.revision if asked.history else known_at(asked.revision), *_conditions(asked))
    )
    return connection.execute(statement.order_by(value.quantity, value.key, value.revision).limit(count)).all()


def _conditions(asked: ValueFilter) -> list[ColumnElement[bool]]:
    value = CALIBRATION_VALUE.c
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
