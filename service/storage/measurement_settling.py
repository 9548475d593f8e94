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

from sqlalchemy import Connection, Engine, Row, bindparam, insert, select, update

from service.domain.catalog import CatalogKind
from service.domain.measurement import RULES, Judgement, Lookups, judge
from service.domain.scopes import NO_ENGINE
from service.storage.database import hold, reading, writing
from service.storage.measurement_tables import (
    LEARNING_QUEUE,
    MEASUREMENT,
    MEASUREMENT_NAME,
    MEASUREMENT_PROBE,
    MEASUREMENT_STATE,
)
from service.storage.measurement_writes import JUDGING_LOCK
from service.storage.snapshot import Snapshot
from service.storage.trust import trust_revision
from service.storage.turns import Turns
from service.storage.uploads import UNHEARD

ROWS_AT_ONCE: Final = 500
_SECONDS: Final = 0.5
_MOST_PENDING: Final = 1000
_STATE: Final = select(MEASUREMENT_STATE).where(MEASUREMENT_STATE.c.id == 1)
_VERDICTS: Final = ("accepted", "unmatched", "quarantined")


def leads_to(snapshot: Snapshot, kind: str, name: str) -> tuple[str | None, int | None]:
    """The entry that a folded name leads to, and the revision it last changed in."""
    ids = snapshot.ids_of(CatalogKind(kind), name)
    entry = snapshot.by_id(CatalogKind(kind), ids[0]) if len(ids) == 1 else None
    return (None, None) if entry is None else (entry.id, entry.revision)


def mark(database: Engine, snapshot: Snapshot) -> None:
    """Mark the names that lead elsewhere than when their rows were judged, and move the state to this catalog."""
    with reading(database) as connection:
        if _is_current(_state(connection), snapshot):
            return
    with writing(database) as connection:
        hold(connection, JUDGING_LOCK)
        # Before the names, as who judges rows again does: in the other order the two could wait for each other.
        state = _locked_state(connection)
        if not _is_current(state, snapshot):
            _mark_names(connection, state, snapshot)
            _move(connection, state, snapshot)


def _state(connection: Connection) -> Row[Any] | None:
    return connection.execute(_STATE).one_or_none()


def _locked_state(connection: Connection) -> Row[Any] | None:
    """The same, for nobody else to change until the transaction ends."""
    return connection.execute(_STATE.with_for_update()).one_or_none()


def _move(connection: Connection, state: Row[Any] | None, snapshot: Snapshot) -> None:
    columns = {"id": 1, "catalog_revision": snapshot.revision, "rules": RULES}
    connection.execute((insert if state is None else update)(MEASUREMENT_STATE).values(columns))


def _is_current(state: Row[Any] | None, snapshot: Snapshot) -> bool:
    """Newer rules than these, or a newer catalog, are for another process to judge by."""
    return state is not None and (
        state.rules > RULES or (state.rules == RULES and state.catalog_revision >= snapshot.revision)
    )


def _mark_names(connection: Connection, state: Row[Any] | None, snapshot: Snapshot) -> None:
    since = state.catalog_revision if state else 0
    # Any model's cache may be kept in a format that changed, and be served by a command of an engine that did.
    all_models = any(_changed_since(snapshot, kind, since) for kind in (CatalogKind.DTYPE, CatalogKind.ENGINE))
    # What may be believed of measurements stands in the entry of the textbook engine.
    limits = snapshot.by_id(CatalogKind.ENGINE, NO_ENGINE)
    everything = state is None or state.rules != RULES or (limits is not None and limits.revision > since)
    for name in connection.execute(select(MEASUREMENT_NAME)).all():
        entry_id, entry_revision = leads_to(snapshot, name.kind, name.name)
        moved = (entry_id, entry_revision) != (name.entry_id, name.entry_revision) or name.name == UNHEARD
        if moved or everything or (all_models and name.kind == CatalogKind.MODEL):
            _progress(connection, name, pending=True, entry_id=entry_id, entry_revision=entry_revision)


def _changed_since(snapshot: Snapshot, kind: CatalogKind, since: int) -> bool:
    entries = (snapshot.by_id(kind, entry_id) for entry_id in snapshot.ids(kind))
    return any(entry is not None and entry.revision > since for entry in entries)


def settle_some(database: Engine, snapshot: Snapshot, seconds: float = _SECONDS) -> bool:
    """Judge rows of pending names again for about so many seconds, a batch at least; whether none is left."""
    until, lookups = monotonic() + seconds, Lookups(snapshot, snapshot.distrust)
    turns = Turns(database, ROWS_AT_ONCE)
    while _settle_next(turns, lookups):
        if monotonic() > until:
            return False
    with reading(database) as connection:
        return _is_settled(connection, lookups) and _next_pending(connection) is None


def _is_settled(connection: Connection, lookups: Lookups) -> bool:
    state = _state(connection)
    return (
        state is not None
        and (state.catalog_revision, state.rules) == (lookups.revision, RULES)
        and trust_revision(connection) == lookups.distrust.revision
    )


def hold_judging(connection: Connection, lookups: Lookups) -> bool:
    """Keep others from judging rows again until the transaction ends; whether `lookups` are what to judge by.

    Two that judge one row at once would count it twice.
    """
    _locked_state(connection)
    return _is_settled(connection, lookups)


def _settle_next(turns: Turns, lookups: Lookups) -> bool:
    """Judge one batch again; whether there was one."""
    with turns.take() as connection:
        name = _next_pending(connection) if hold_judging(connection, lookups) else None
        done = 0 if name is None else _settle_batch(connection, name, lookups, turns.rows)
    turns.did(done)
    return name is not None


def _next_pending(connection: Connection) -> Row[Any] | None:
    asked = (
        select(MEASUREMENT_NAME)
        .where(MEASUREMENT_NAME.c.pending)
        .order_by(MEASUREMENT_NAME.c.kind, MEASUREMENT_NAME.c.name)
    )
    return connection.execute(asked.limit(1)).first()


def pending_names(database: Engine) -> list[tuple[str, str]] | None:
    """The names whose rows may carry an old verdict; None where they are too many to list."""
    with reading(database) as connection:
        asked = select(MEASUREMENT_NAME.c.kind, MEASUREMENT_NAME.c.name).where(MEASUREMENT_NAME.c.pending)
        found = [(kind, name) for kind, name in connection.execute(asked.limit(_MOST_PENDING + 1))]
    return found if len(found) <= _MOST_PENDING else None


def _settle_batch(connection: Connection, name: Row[Any], lookups: Lookups, count: int) -> int:
    rows = connection.execute(_rows_after(name).limit(count)).all()
    judge_again(connection, rows, lookups)
    if len(rows) < count:
        _progress(connection, name, pending=False)
    else:
        _progress(connection, name, pending=True, done_at=rows[-1].measured_at, done_seq=rows[-1].seq)
    return len(rows)


def _progress(connection: Connection, name: Row[Any], **columns: Any) -> None:  # noqa: ANN401  # a column's value
    """Say how far the rows of a name were judged again, from the start unless `columns` say it."""
    own = MEASUREMENT_NAME.c.kind == name.kind, MEASUREMENT_NAME.c.name == name.name
    connection.execute(update(MEASUREMENT_NAME).where(*own).values({"done_at": None, "done_seq": 0, **columns}))


def judge_again(connection: Connection, rows: Sequence[Any], lookups: Lookups) -> None:
    """Judge rows of JUDGED_COLUMNS, and write down what moved: verdicts, probes' counts, and what is to be learned."""
    moved: list[dict[str, Any]] = []
    deltas: dict[tuple[UUID, str], int] = {}
    for seq, probe_id, received_at, _, verdict, detail, content, token_id, model_name in rows:
        judged = judge(json.loads(content), received_at, lookups, token_id)
        if model_name == UNHEARD and judged.model_id is not None:
            _name_model(connection, seq, judged.model_id)
        if (judged.verdict, judged.detail) != (verdict, detail):
            moved.append(_change(seq, judged, lookups.revision))
            deltas[probe_id, verdict] = deltas.get((probe_id, verdict), 0) - 1
            deltas[probe_id, judged.verdict] = deltas.get((probe_id, judged.verdict), 0) + 1
    if moved:
        connection.execute(_UPDATE, moved)
        _queue(connection, [change["of"] for change in moved])
        _recount(connection, deltas)


def _name_model(connection: Connection, seq: int, model_id: str) -> None:
    """Have a row whose command is understood by now found by its model, as if it had been understood at once."""
    name = MEASUREMENT_NAME.c
    known = select(name.name).where(name.kind == CatalogKind.MODEL, name.name == model_id)
    if connection.execute(known).first() is None:
        # Without a revision, so that its rows are judged once more at the next change: harmless.
        columns = {"kind": CatalogKind.MODEL, "name": model_id, "entry_id": model_id, "pending": False, "done_seq": 0}
        connection.execute(insert(MEASUREMENT_NAME).values(columns))
    connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.seq == seq).values(model_name=model_id))


def _queue(connection: Connection, seqs: list[int]) -> None:
    """Have learning look at rows again that it may have passed."""
    known = set(connection.scalars(select(LEARNING_QUEUE.c.seq).where(LEARNING_QUEUE.c.seq.in_(seqs))))
    new = [{"seq": seq} for seq in seqs if seq not in known]
    if new:
        connection.execute(insert(LEARNING_QUEUE), new)


JUDGED_COLUMNS: Final = (
    MEASUREMENT.c.seq,
    MEASUREMENT.c.probe_id,
    MEASUREMENT.c.received_at,
    MEASUREMENT.c.measured_at,
    MEASUREMENT.c.verdict,
    MEASUREMENT.c.detail,
    MEASUREMENT.c.content,
    MEASUREMENT.c.token_id,
    MEASUREMENT.c.model_name,
)


def _rows_after(name: Row[Any]) -> Any:  # noqa: ANN401  # a Select of JUDGED_COLUMNS
    column = MEASUREMENT.c.gpu_name if name.kind == CatalogKind.GPU else MEASUREMENT.c.model_name
    asked = select(*JUDGED_COLUMNS).where(column == name.name)
    if name.done_at is not None:
        asked = asked.where(
            MEASUREMENT.c.measured_at >= name.done_at,
            (MEASUREMENT.c.measured_at > name.done_at) | (MEASUREMENT.c.seq > name.done_seq),
        )
    return asked.order_by(MEASUREMENT.c.measured_at, MEASUREMENT.c.seq)


_UPDATE: Final = (
    update(MEASUREMENT)
    .where(MEASUREMENT.c.seq == bindparam("of"))
    .values(verdict=bindparam("to"), detail=bindparam("why"), catalog_revision=bindparam("by"))
)


def _change(seq: int, judged: Judgement, revision: int) -> dict[str, Any]:
    return {"of": seq, "to": judged.verdict.value, "why": judged.detail, "by": revision}


def _recount(connection: Connection, deltas: dict[tuple[UUID, str], int]) -> None:
    for probe_id in sorted({probe for probe, _ in deltas}):
        columns = {v: MEASUREMENT_PROBE.c[v] + deltas[probe_id, v] for v in _VERDICTS if deltas.get((probe_id, v))}
        if columns:
            connection.execute(
                update(MEASUREMENT_PROBE).where(MEASUREMENT_PROBE.c.probe_id == probe_id).values(columns)
            )
