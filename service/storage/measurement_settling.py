"""Judging again what is stored, when the catalog has learned: only rows of names that now lead elsewhere.

The state says by which catalog all rows were judged, but for those of names marked `pending`. Moving it is done under
a lock that uploads share, so that no upload judged by an older catalog arrives after its names were looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import monotonic
from typing import Any, Final
from uuid import UUID

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from service.domain.catalog import CatalogKind
from service.domain.measurement import RULES, Judgement, Lookups, judge
from service.domain.scopes import NO_ENGINE
from service.storage.database import read_session, write_session
from service.storage.measurement_tables import (
    LearningQueue,
    Measurement,
    MeasurementName,
    MeasurementProbe,
    MeasurementState,
)
from service.storage.measurement_writes import JUDGING_LOCK
from service.storage.snapshot import Snapshot
from service.storage.trust import trust_revision
from service.storage.turns import Turns
from service.storage.uploads import UNHEARD

ROWS_AT_ONCE: Final = 500
_SECONDS: Final = 0.5
_MOST_PENDING: Final = 1000
_VERDICTS: Final = ("accepted", "unmatched", "quarantined")


def leads_to(snapshot: Snapshot, kind: str, name: str) -> tuple[str | None, int | None]:
    """The entry that a folded name leads to, and the revision it last changed in."""
    ids = snapshot.ids_of(CatalogKind(kind), name)
    entry = snapshot.by_id(CatalogKind(kind), ids[0]) if len(ids) == 1 else None
    return (None, None) if entry is None else (entry.id, entry.revision)


def mark(sessions: sessionmaker[Session], snapshot: Snapshot) -> None:
    """Mark the names that lead elsewhere than when their rows were judged, and move the state to this catalog."""
    with read_session(sessions) as session:
        if _is_current(session.get(MeasurementState, 1), snapshot):
            return
    with write_session(sessions) as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": JUDGING_LOCK})
        state = session.get(MeasurementState, 1)
        if not _is_current(state, snapshot):
            _mark_names(session, state, snapshot)
            session.merge(MeasurementState(id=1, catalog_revision=snapshot.revision, rules=RULES))


def _is_current(state: MeasurementState | None, snapshot: Snapshot) -> bool:
    """Newer rules than these, or a newer catalog, are for another process to judge by."""
    return state is not None and (
        state.rules > RULES or (state.rules == RULES and state.catalog_revision >= snapshot.revision)
    )


def _mark_names(session: Session, state: MeasurementState | None, snapshot: Snapshot) -> None:
    since = state.catalog_revision if state else 0
    # Any model's cache may be kept in a format that changed, and be served by a command of an engine that did.
    all_models = any(_changed_since(snapshot, kind, since) for kind in (CatalogKind.DTYPE, CatalogKind.ENGINE))
    # What may be believed of measurements stands in the entry of the textbook engine.
    limits = snapshot.by_id(CatalogKind.ENGINE, NO_ENGINE)
    everything = state is None or state.rules != RULES or (limits is not None and limits.revision > since)
    for name in session.scalars(select(MeasurementName)):
        entry_id, entry_revision = leads_to(snapshot, name.kind, name.name)
        moved = (entry_id, entry_revision) != (name.entry_id, name.entry_revision) or name.name == UNHEARD
        if moved or everything or (all_models and name.kind == CatalogKind.MODEL):
            name.entry_id, name.entry_revision = entry_id, entry_revision
            name.pending, name.done_at, name.done_seq = True, None, 0


def _changed_since(snapshot: Snapshot, kind: CatalogKind, since: int) -> bool:
    entries = (snapshot.by_id(kind, entry_id) for entry_id in snapshot.ids(kind))
    return any(entry is not None and entry.revision > since for entry in entries)


def settle_some(sessions: sessionmaker[Session], snapshot: Snapshot, seconds: float = _SECONDS) -> bool:
    """Judge rows of pending names again for about so many seconds, a batch at least; whether none is left."""
    until, lookups = monotonic() + seconds, Lookups(snapshot, snapshot.distrust)
    turns = Turns(sessions, ROWS_AT_ONCE)
    while _settle_next(turns, lookups):
        if monotonic() > until:
            return False
    with read_session(sessions) as session:
        return _is_settled(session, lookups) and _next_pending(session) is None


def _is_settled(session: Session, lookups: Lookups) -> bool:
    state = session.get(MeasurementState, 1)
    return (
        state is not None
        and (state.catalog_revision, state.rules) == (lookups.revision, RULES)
        and trust_revision(session) == lookups.distrust.revision
    )


def hold_judging(session: Session, lookups: Lookups) -> bool:
    """Keep others from judging rows again until the transaction ends; whether `lookups` are what to judge by.

    Two that judge one row at once would count it twice.
    """
    session.get(MeasurementState, 1, with_for_update=True)
    return _is_settled(session, lookups)


def _settle_next(turns: Turns, lookups: Lookups) -> bool:
    """Judge one batch again; whether there was one."""
    with turns.take() as session:
        name = _next_pending(session) if hold_judging(session, lookups) else None
        done = 0 if name is None else _settle_batch(session, name, lookups, turns.rows)
    turns.did(done)
    return name is not None


def _next_pending(session: Session) -> MeasurementName | None:
    asked = select(MeasurementName).where(MeasurementName.pending).order_by(MeasurementName.kind, MeasurementName.name)
    return session.scalars(asked.limit(1)).first()


def pending_names(sessions: sessionmaker[Session]) -> list[tuple[str, str]] | None:
    """The names whose rows may carry an old verdict; None where they are too many to list."""
    with read_session(sessions) as session:
        asked = select(MeasurementName.kind, MeasurementName.name).where(MeasurementName.pending)
        found = [(kind, name) for kind, name in session.execute(asked.limit(_MOST_PENDING + 1))]
    return found if len(found) <= _MOST_PENDING else None


def _settle_batch(session: Session, name: MeasurementName, lookups: Lookups, count: int) -> int:
    rows = session.execute(_rows_after(name).limit(count)).all()
    judge_again(session, rows, lookups)
    if len(rows) < count:
        name.pending, name.done_at, name.done_seq = False, None, 0
    else:
        name.done_at, name.done_seq = rows[-1].measured_at, rows[-1].seq
    return len(rows)


def judge_again(session: Session, rows: Sequence[Any], lookups: Lookups) -> None:
    """Judge rows of JUDGED_COLUMNS, and write down what moved: verdicts, probes' counts, and what is to be learned."""
    moved: list[dict[str, Any]] = []
    deltas: dict[tuple[UUID, str], int] = {}
    for seq, probe_id, received_at, _, verdict, detail, content, token_id, model_name in rows:
        judged = judge(json.loads(content), received_at, lookups, token_id)
        if model_name == UNHEARD and judged.model_id is not None:
            _name_model(session, seq, judged.model_id)
        if (judged.verdict, judged.detail) != (verdict, detail):
            moved.append(_change(seq, judged, lookups.revision))
            deltas[probe_id, verdict] = deltas.get((probe_id, verdict), 0) - 1
            deltas[probe_id, judged.verdict] = deltas.get((probe_id, judged.verdict), 0) + 1
    if moved:
        session.connection().execute(_UPDATE, moved)
        _queue(session, [change["of"] for change in moved])
        _recount(session, deltas)


def _name_model(session: Session, seq: int, model_id: str) -> None:
    """Have a row whose command is understood by now found by its model, as if it had been understood at once."""
    if session.get(MeasurementName, (CatalogKind.MODEL, model_id)) is None:
        # Without a revision, so that its rows are judged once more at the next change: harmless.
        session.add(
            MeasurementName(kind=CatalogKind.MODEL, name=model_id, entry_id=model_id, pending=False, done_seq=0)
        )
        session.flush()
    session.execute(update(Measurement).where(Measurement.seq == seq).values(model_name=model_id))


def _queue(session: Session, seqs: list[int]) -> None:
    """Have learning look at rows again that it may have passed."""
    known = set(session.scalars(select(LearningQueue.seq).where(LearningQueue.seq.in_(seqs))))
    session.add_all(LearningQueue(seq=seq) for seq in seqs if seq not in known)


JUDGED_COLUMNS: Final = (
    Measurement.seq,
    Measurement.probe_id,
    Measurement.received_at,
    Measurement.measured_at,
    Measurement.verdict,
    Measurement.detail,
    Measurement.content,
    Measurement.token_id,
    Measurement.model_name,
)


def _rows_after(name: MeasurementName) -> Any:  # noqa: ANN401  # a Select of JUDGED_COLUMNS
    column = Measurement.gpu_name if name.kind == CatalogKind.GPU else Measurement.model_name
    asked = select(*JUDGED_COLUMNS).where(column == name.name)
    if name.done_at is not None:
        asked = asked.where(
            Measurement.measured_at >= name.done_at,
            (Measurement.measured_at > name.done_at) | (Measurement.seq > name.done_seq),
        )
    return asked.order_by(Measurement.measured_at, Measurement.seq)


_table: Final = Measurement.__table__
_UPDATE: Final = (
    update(_table)  # type: ignore[arg-type]  # a Table, though declared as any FromClause
    .where(_table.c.seq == bindparam("of"))
    .values(verdict=bindparam("to"), detail=bindparam("why"), catalog_revision=bindparam("by"))
)


def _change(seq: int, judged: Judgement, revision: int) -> dict[str, Any]:
    return {"of": seq, "to": judged.verdict.value, "why": judged.detail, "by": revision}


def _recount(session: Session, deltas: dict[tuple[UUID, str], int]) -> None:
    for probe_id in sorted({probe for probe, _ in deltas}):
        columns = {
            v: getattr(MeasurementProbe, v) + deltas[probe_id, v] for v in _VERDICTS if deltas.get((probe_id, v))
        }
        if columns:
            session.execute(update(MeasurementProbe).where(MeasurementProbe.probe_id == probe_id).values(columns))
