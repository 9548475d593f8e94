"""Finding measurements again: pages by filters in the order of time (keyset), one by its id, and who sent them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Engine, Row, and_, or_, select, text, true

from service.domain.catalog import CatalogKind
from service.storage.database import reading
from service.storage.filters import among
from service.storage.measurement_tables import MEASUREMENT, MEASUREMENT_NAME, MEASUREMENT_PROBE
from service.storage.names import fold
from service.storage.snapshot import Snapshot

Pending = Collection[tuple[str, str]] | None
_ACCEPTED: Final = "accepted"


@dataclass(frozen=True, slots=True)
class MeasurementFilter:
    """What a page is asked for; empty collections and None ask for anything. Times are zoned, names folded.

    `after` is where the last page ended: the time and the number of its last row.
    """

    kinds: Collection[str] = ()
    gpu_names: Collection[str] | None = None
    model_names: Collection[str] | None = None
    engines: Collection[str] = ()
    verdicts: Collection[str] = ()
    probe_id: UUID | None = None
    since: datetime | None = None
    until: datetime | None = None
    after: tuple[datetime, int] | None = None


def find_measurements(
    database: Engine, asked: MeasurementFilter, count: int, pending: Pending = ()
) -> Sequence[Row[Any]]:
    """At most `count` rows, the newest measured first.

    Verdicts are compared as they were stored; rows of `pending` names, all where it is None, are there whatever their
    stored verdict is.
    """
    statement = select(MEASUREMENT).where(*_conditions(asked), _by_verdict(asked.verdicts, pending))
    statement = statement.order_by(MEASUREMENT.c.measured_at.desc(), MEASUREMENT.c.seq.desc()).limit(count)
    with reading(database) as connection:
        return connection.execute(statement).all()


def find_measurement(database: Engine, measurement_id: UUID) -> Row[Any] | None:
    """The row of that id."""
    with reading(database) as connection:
        return connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.id == measurement_id)).one_or_none()


def names_leading_to(database: Engine, kind: CatalogKind, name: str, snapshot: Snapshot) -> set[str]:
    """Folded names that rows may use for what a name leads to: the name itself, and others of the same entry."""
    names = {fold(name)}
    ids = snapshot.ids_of(kind, name)
    if ids:
        with reading(database) as connection:
            asked = select(MEASUREMENT_NAME.c.name).where(
                MEASUREMENT_NAME.c.kind == kind, MEASUREMENT_NAME.c.entry_id.in_(ids)
            )
            names |= set(connection.scalars(asked))
    return names


def find_probes(database: Engine, after: UUID | None, count: int) -> Sequence[Row[Any]]:
    """At most `count` probes in the order of their ids, after one of them."""
    statement = select(MEASUREMENT_PROBE).order_by(MEASUREMENT_PROBE.c.probe_id).limit(count)
    if after is not None:
        statement = statement.where(MEASUREMENT_PROBE.c.probe_id > after)
    with reading(database) as connection:
        return connection.execute(statement).all()


def _conditions(asked: MeasurementFilter) -> list[ColumnElement[bool]]:
    conditions = among(
        (MEASUREMENT.c.kind, asked.kinds or None),
        (MEASUREMENT.c.gpu_name, asked.gpu_names),
        (MEASUREMENT.c.model_name, asked.model_names),
        (MEASUREMENT.c.engine, asked.engines or None),
    )
    if asked.probe_id is not None:
        conditions.append(MEASUREMENT.c.probe_id == asked.probe_id)
    if asked.since is not None:
        conditions.append(MEASUREMENT.c.measured_at >= asked.since)
    if asked.until is not None:
        conditions.append(MEASUREMENT.c.measured_at < asked.until)
    if asked.after is not None:
        moment, seq = asked.after
        # The first of the two bounds is what the index is entered by.
        conditions += [
            MEASUREMENT.c.measured_at <= moment,
            or_(MEASUREMENT.c.measured_at < moment, MEASUREMENT.c.seq < seq),
        ]
    return conditions


def _by_verdict(verdicts: Collection[str], pending: Pending) -> ColumnElement[bool]:
    if not verdicts or pending is None:
        return true()
    stored: ColumnElement[bool] = MEASUREMENT.c.verdict.in_(verdicts)
    if _ACCEPTED not in verdicts and not pending:
        # Said in the words of the partial index, without which SQLite does not use it.
        stored = and_(stored, text("measurement.verdict <> 'accepted'"))
    gpus = [name for kind, name in pending if kind == CatalogKind.GPU]
    models = [name for kind, name in pending if kind == CatalogKind.MODEL]
    return or_(stored, MEASUREMENT.c.gpu_name.in_(gpus), MEASUREMENT.c.model_name.in_(models)) if pending else stored
