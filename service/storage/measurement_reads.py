"""Finding measurements again: pages by filters in the order of time (keyset), one by its id, and who sent them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from sqlalchemy import ColumnElement, and_, or_, select, text, true
from sqlalchemy.orm import Session, sessionmaker

from service.domain.catalog import CatalogKind
from service.storage.database import read_session
from service.storage.filters import among
from service.storage.measurement_tables import Measurement, MeasurementName, MeasurementProbe
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
    sessions: sessionmaker[Session], asked: MeasurementFilter, count: int, pending: Pending = ()
) -> Sequence[Measurement]:
    """At most `count` rows, the newest measured first.

    Verdicts are compared as they were stored; rows of `pending` names, all where it is None, are there whatever their
    stored verdict is.
    """
    statement = select(Measurement).where(*_conditions(asked), _by_verdict(asked.verdicts, pending))
    statement = statement.order_by(Measurement.measured_at.desc(), Measurement.seq.desc()).limit(count)
    with read_session(sessions) as session:
        return session.scalars(statement).all()


def find_measurement(sessions: sessionmaker[Session], measurement_id: UUID) -> Measurement | None:
    """The row of that id."""
    with read_session(sessions) as session:
        return session.scalars(select(Measurement).where(Measurement.id == measurement_id)).one_or_none()


def names_leading_to(sessions: sessionmaker[Session], kind: CatalogKind, name: str, snapshot: Snapshot) -> set[str]:
    """Folded names that rows may use for what a name leads to: the name itself, and others of the same entry."""
    names = {fold(name)}
    ids = snapshot.ids_of(kind, name)
    if ids:
        with read_session(sessions) as session:
            asked = select(MeasurementName.name).where(MeasurementName.kind == kind, MeasurementName.entry_id.in_(ids))
            names |= set(session.scalars(asked))
    return names


def find_probes(sessions: sessionmaker[Session], after: UUID | None, count: int) -> Sequence[MeasurementProbe]:
    """At most `count` probes in the order of their ids, after one of them."""
    statement = select(MeasurementProbe).order_by(MeasurementProbe.probe_id).limit(count)
    if after is not None:
        statement = statement.where(MeasurementProbe.probe_id > after)
    with read_session(sessions) as session:
        return session.scalars(statement).all()


def _conditions(asked: MeasurementFilter) -> list[ColumnElement[bool]]:
    conditions = among(
        (Measurement.kind, asked.kinds or None),
        (Measurement.gpu_name, asked.gpu_names),
        (Measurement.model_name, asked.model_names),
        (Measurement.engine, asked.engines or None),
    )
    if asked.probe_id is not None:
        conditions.append(Measurement.probe_id == asked.probe_id)
    if asked.since is not None:
        conditions.append(Measurement.measured_at >= asked.since)
    if asked.until is not None:
        conditions.append(Measurement.measured_at < asked.until)
    if asked.after is not None:
        moment, seq = asked.after
        # The first of the two bounds is what the index is entered by.
        conditions += [Measurement.measured_at <= moment, or_(Measurement.measured_at < moment, Measurement.seq < seq)]
    return conditions


def _by_verdict(verdicts: Collection[str], pending: Pending) -> ColumnElement[bool]:
    if not verdicts or pending is None:
        return true()
    stored: ColumnElement[bool] = Measurement.verdict.in_(verdicts)
    if _ACCEPTED not in verdicts and not pending:
        # Said in the words of the partial index, without which SQLite does not use it.
        stored = and_(stored, text("measurement.verdict <> 'accepted'"))
    gpus = [name for kind, name in pending if kind == CatalogKind.GPU]
    models = [name for kind, name in pending if kind == CatalogKind.MODEL]
    return or_(stored, Measurement.gpu_name.in_(gpus), Measurement.model_name.in_(models)) if pending else stored
