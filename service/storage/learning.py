"""Learning from measurements: a bounded job that takes up what came since, and writes what changed as one revision.

Rows are looked at once, in the order they were stored, and the newest few of each probe under each circumstance are
kept as samples beside what the catalog said. Everything learned is computed from samples: so raw rows may go, a changed
catalog is compared again, and no question ever waits for it.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Engine, Row, delete, func, insert, select, update

from service.domain.calibration import Scope
from service.domain.learning import RULES
from service.domain.observations import Found, Memo, observe
from service.storage.canonical import compact_json
from service.storage.database import hold, writing
from service.storage.learned_values import LEARNER_LOCK, learning_state, write_revision
from service.storage.measurement_tables import (
    ACCURACY_SCORE,
    LEARNING_QUEUE,
    LEARNING_SAMPLE,
    LEARNING_STATE,
    MEASUREMENT,
)
from service.storage.measurement_writes import JUDGING_LOCK
from service.storage.scores import forget_scores, note_scores
from service.storage.snapshot import Snapshot
from service.storage.turns import Turns

_logger: Final = logging.getLogger(__name__)

SAMPLES_KEPT: Final = 8
"""Of each probe and cell, the newest."""

CELLS_KEPT: Final = 64
"""Of each probe, those it measured in last: what one probe invents must not fill the store."""

_ROWS_AT_ONCE: Final = 500
_SECONDS: Final = 20.0
_ACCEPTED: Final = "accepted"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What one run of the job did; `revision` is None where nothing that was learned changed."""

    rows: int
    samples: int
    revision: int | None
    done: bool


class _Batch(NamedTuple):
    """Rows of one turn, none above `reach`; `memo` keeps what those of one setup share, from turn to turn."""

    reach: int
    turns: Turns
    memo: Memo


@dataclass(slots=True)
class _State:
    """How far learning came; a turn moves it on."""

    seq: int
    taken: int
    rules: int


class _Taken(NamedTuple):
    rows: int
    more: bool


def learn_some(database: Engine, snapshot: Snapshot, seconds: float = _SECONDS) -> Lesson:
    """Take up rows for about so many seconds, a batch at least, and write down what they teach."""
    until, rows, done = monotonic() + seconds, 0, True
    batch = _Batch(_reach(database), Turns(database, _ROWS_AT_ONCE), {})
    for take in (_take_again, _take_compared, _take_new):
        more = True
        while more:
            taken = _in_turn(take, snapshot, batch)
            rows, more = rows + taken.rows, taken.more
            if more and monotonic() > until:
                done = False
                break
    revision, samples = write_revision(database, snapshot)
    return Lesson(rows, samples, revision, done)


def _reach(database: Engine) -> int:
    """The last row below which none is still being written: uploads that were numbered earlier may commit later."""
    with writing(database) as connection:
        hold(connection, JUDGING_LOCK)
        return connection.scalar(select(func.max(MEASUREMENT.c.seq))) or 0


def _in_turn(take: Any, snapshot: Snapshot, batch: _Batch) -> _Taken:  # noqa: ANN401  # one of those below
    """One batch as one transaction, which of several processes one does at a time."""
    with batch.turns.take() as connection:
        hold(connection, LEARNER_LOCK)
        state = _state(connection)
        if state.rules != RULES:
            # Other comparisons: what is kept is compared again, as after a change of the catalog.
            connection.execute(update(LEARNING_SAMPLE).values(catalog_revision=0))
        began, state.rules = replace(state), RULES
        taken: _Taken = take(connection, state, snapshot, batch)
        if state != began:
            connection.execute(update(LEARNING_STATE).values(asdict(state)))
    batch.turns.did(taken.rows)
    return taken


def _state(connection: Connection) -> _State:
    found = learning_state(connection)
    if found is not None:
        return _State(found.seq, found.taken, found.rules)
    connection.execute(insert(LEARNING_STATE).values(id=1, seq=0, taken=0, learned=0, rules=RULES))
    return _State(0, 0, RULES)


def _take_new(connection: Connection, state: _State, snapshot: Snapshot, batch: _Batch) -> _Taken:
    asked = select(MEASUREMENT).where(MEASUREMENT.c.seq > state.seq, MEASUREMENT.c.seq <= batch.reach)
    found = connection.execute(asked.order_by(MEASUREMENT.c.seq).limit(batch.turns.rows)).all()
    if not found:
        return _Taken(0, more=False)
    looked_at = _taught(found, snapshot, batch)
    _keep(connection, state, looked_at)
    note_scores(connection, snapshot, [row for row in looked_at if row.verdict == _ACCEPTED])
    state.seq = found[len(looked_at) - 1].seq
    return _Taken(len(looked_at), more=len(looked_at) < len(found) or len(found) == batch.turns.rows)


def _take_again(connection: Connection, state: _State, snapshot: Snapshot, batch: _Batch) -> _Taken:
    """Rows that were judged again after they had been looked at: taken up, or given up."""
    asked = select(LEARNING_QUEUE.c.seq).order_by(LEARNING_QUEUE.c.seq).limit(batch.turns.rows)
    queued = connection.scalars(asked).all()
    if not queued:
        return _Taken(0, more=False)
    passed = [seq for seq in queued if seq <= state.seq]
    rows = _rows(connection, passed)
    looked_at = _taught(rows, snapshot, batch)
    reached = _reached(looked_at, rows, queued[-1])
    passed = [seq for seq in passed if seq <= reached]
    _give_up(connection, state, passed)
    _keep(connection, state, looked_at)
    accepted = [row for row in looked_at if row.verdict == _ACCEPTED and row.seq <= batch.reach]
    forget_scores(connection, ACCURACY_SCORE.c.seq.in_(set(passed) - {row.seq for row in accepted}))
    note_scores(connection, snapshot, accepted)
    done = [seq for seq in queued if seq <= reached]
    connection.execute(delete(LEARNING_QUEUE).where(LEARNING_QUEUE.c.seq.in_(done)))
    return _Taken(len(done), more=len(done) < len(queued) or len(queued) == batch.turns.rows)


def _take_compared(connection: Connection, state: _State, snapshot: Snapshot, batch: _Batch) -> _Taken:
    """Samples that were compared with what the catalog no longer says."""
    revision = snapshot.compared_revision()
    asked = select(LEARNING_SAMPLE.c.seq).where(LEARNING_SAMPLE.c.catalog_revision < revision)
    old = connection.scalars(asked.order_by(LEARNING_SAMPLE.c.seq).limit(batch.turns.rows)).all()
    if not old:
        return _Taken(0, more=False)
    rows = _rows(connection, old)
    looked_at = _taught(rows, snapshot, batch)
    reached = _reached(looked_at, rows, old[-1])
    done = [seq for seq in old if seq <= reached]
    _give_up(connection, state, done)
    _keep(connection, state, looked_at)
    return _Taken(len(done), more=len(done) < len(old) or len(old) == batch.turns.rows)


def _rows(connection: Connection, seqs: Sequence[int]) -> Sequence[Row[Any]]:
    return connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.seq.in_(seqs)).order_by(MEASUREMENT.c.seq)).all()


def _give_up(connection: Connection, state: _State, seqs: Sequence[int]) -> None:
    if seqs:
        gone = connection.execute(delete(LEARNING_SAMPLE).where(LEARNING_SAMPLE.c.seq.in_(seqs)))
        state.taken += gone.rowcount


_Lessons = dict[Row[Any], dict[str, Any] | None]


def _taught(rows: Iterable[Row[Any]], snapshot: Snapshot, batch: _Batch) -> _Lessons:
    """What rows teach, each None where it is nothing; of as many as the turn has time for, one at least."""
    looked_at: _Lessons = {}
    for row in rows:
        looked_at[row] = _sample(row, snapshot, batch.memo) if row.verdict == _ACCEPTED else None
        if batch.turns.is_over():
            break
    return looked_at


def _reached(looked_at: _Lessons, rows: Sequence[Row[Any]], last: int) -> int:
    """How far a turn came that was to look at rows, and to come to `last` with them."""
    return last if len(looked_at) == len(rows) else next(reversed(looked_at)).seq


def _keep(connection: Connection, state: _State, lessons: _Lessons) -> None:
    """Keep what rows teach, and of each probe and cell only the newest."""
    samples = [sample for sample in lessons.values() if sample is not None]
    if samples:
        state.taken += 1
        connection.execute(insert(LEARNING_SAMPLE), samples)
        for probe_id in sorted({sample["probe_id"] for sample in samples}):
            _trim(connection, probe_id)


def _sample(row: Row[Any], snapshot: Snapshot, memo: Memo) -> dict[str, Any] | None:
    """What a row teaches, as it is stored; None where it teaches nothing."""
    try:
        found = observe(json.loads(row.content), snapshot, memo)
        return None if found is None else _written(row, *found, snapshot.revision)
    except Exception as error:  # noqa: BLE001  # one row that nobody thought of must not end all learning
        _logger.warning("measurement %s cannot be compared (%s)", row.id, type(error).__name__)
        return None


def _written(row: Row[Any], scope: Scope, observations: Found, revision: int) -> dict[str, Any]:
    document = scope.document()
    cell = hashlib.blake2b(compact_json([row.kind, document]).encode(), digest_size=16).hexdigest()
    told = {quantity.value: list(observation) for quantity, observation in observations.items()}
    return {
        "seq": row.seq,
        "probe_id": row.probe_id,
        "cell": cell,
        # A clock that runs ahead must not make a row the newest for long.
        "measured_at": min(row.measured_at, row.received_at),
        "catalog_revision": revision,
        "content": compact_json({"scope": document, "told": told}),
    }


def _trim(connection: Connection, probe_id: UUID) -> None:
    own = LEARNING_SAMPLE.c.probe_id == probe_id
    asked = select(LEARNING_SAMPLE.c.seq, LEARNING_SAMPLE.c.cell, LEARNING_SAMPLE.c.measured_at).where(own)
    found = connection.execute(asked.order_by(LEARNING_SAMPLE.c.measured_at.desc(), LEARNING_SAMPLE.c.seq.desc())).all()
    kept: dict[str, int] = {}
    gone = []
    for seq, cell, _ in found:
        known = kept.get(cell, 0)
        if known == SAMPLES_KEPT or (not known and len(kept) == CELLS_KEPT):
            gone.append(seq)
        else:
            kept[cell] = known + 1
    if gone:
        connection.execute(delete(LEARNING_SAMPLE).where(LEARNING_SAMPLE.c.seq.in_(gone)))
