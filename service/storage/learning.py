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
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import delete, func, insert, select, text, update
from sqlalchemy.orm import Session, sessionmaker

from service.domain.calibration import Scope
from service.domain.learning import RULES
from service.domain.observations import Found, Memo, observe
from service.storage.canonical import compact_json
from service.storage.database import read_session, write_session
from service.storage.learned_values import LEARNER_LOCK, write_revision
from service.storage.measurement_tables import AccuracyScore, LearningQueue, LearningSample, LearningState, Measurement
from service.storage.measurement_writes import JUDGING_LOCK
from service.storage.scores import forget_scores, note_scores
from service.storage.snapshot import Snapshot
from service.storage.turns import Turns

_logger: Final = logging.getLogger(__name__)

SAMPLES_KEPT: Final = 8
"""Of each probe and cell, the newest."""

CELLS_KEPT: Final = 64
"""Of each probe, those it measured in last: what one probe invents must not fill the store."""

# As text, for what every worker asks now and then: see `newest_revisions`.
_WAITING: Final = (
    "SELECT (SELECT max(seq) FROM measurement), (SELECT min(catalog_revision) FROM learning_sample),"
    " (SELECT min(seq) FROM learning_queue), (SELECT min(id) FROM trust_decision WHERE done_seq < last_seq)"
)
_STATE: Final = "SELECT seq, taken, learned, rules FROM learning_state WHERE id = 1"
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


class _Taken(NamedTuple):
    rows: int
    more: bool


def learn_some(sessions: sessionmaker[Session], snapshot: Snapshot, seconds: float = _SECONDS) -> Lesson:
    """Take up rows for about so many seconds, a batch at least, and write down what they teach."""
    until, rows, done = monotonic() + seconds, 0, True
    batch = _Batch(_reach(sessions), Turns(sessions, _ROWS_AT_ONCE), {})
    for take in (_take_again, _take_compared, _take_new):
        more = True
        while more:
            taken = _in_turn(take, snapshot, batch)
            rows, more = rows + taken.rows, taken.more
            if more and monotonic() > until:
                done = False
                break
    revision, samples = write_revision(sessions, snapshot)
    return Lesson(rows, samples, revision, done)


def has_news(sessions: sessionmaker[Session], snapshot: Snapshot) -> bool:
    """Whether a run would find something to do: looked up by keys, however many rows there are."""
    with read_session(sessions) as session:
        newest, oldest, queued, unsettled = session.connection().exec_driver_sql(_WAITING).one()
        state = session.connection().exec_driver_sql(_STATE).first()
    return (
        (newest or 0) > (0 if state is None else state.seq)
        or (state is not None and (state.taken != state.learned or state.rules != RULES))
        or (oldest is not None and oldest < snapshot.compared_revision())
        or queued is not None
        or unsettled is not None
    )


def _reach(sessions: sessionmaker[Session]) -> int:
    """The last row below which none is still being written: uploads that were numbered earlier may commit later."""
    with write_session(sessions) as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": JUDGING_LOCK})
        return session.scalar(select(func.max(Measurement.seq))) or 0


def _in_turn(take: Any, snapshot: Snapshot, batch: _Batch) -> _Taken:  # noqa: ANN401  # one of those below
    """One batch as one transaction, which of several processes one does at a time."""
    with batch.turns.take() as session:
        if session.get_bind().dialect.name == "postgresql":
            session.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LEARNER_LOCK})
        state = session.get(LearningState, 1) or LearningState(id=1, seq=0, rules=RULES, taken=0, learned=0)
        session.add(state)
        if state.rules != RULES:
            # Other comparisons: what is kept is compared again, as after a change of the catalog.
            session.execute(update(LearningSample).values(catalog_revision=0))
            state.rules = RULES
        taken: _Taken = take(session, state, snapshot, batch)
    batch.turns.did(taken.rows)
    return taken


def _take_new(session: Session, state: LearningState, snapshot: Snapshot, batch: _Batch) -> _Taken:
    asked = select(Measurement).where(Measurement.seq > state.seq, Measurement.seq <= batch.reach)
    found = session.scalars(asked.order_by(Measurement.seq).limit(batch.turns.rows)).all()
    if not found:
        return _Taken(0, more=False)
    looked_at = _taught(found, snapshot, batch)
    _keep(session, state, looked_at)
    note_scores(session, snapshot, [row for row in looked_at if row.verdict == _ACCEPTED])
    state.seq = found[len(looked_at) - 1].seq
    return _Taken(len(looked_at), more=len(looked_at) < len(found) or len(found) == batch.turns.rows)


def _take_again(session: Session, state: LearningState, snapshot: Snapshot, batch: _Batch) -> _Taken:
    """Rows that were judged again after they had been looked at: taken up, or given up."""
    asked = select(LearningQueue.seq).order_by(LearningQueue.seq).limit(batch.turns.rows)
    queued = session.scalars(asked).all()
    if not queued:
        return _Taken(0, more=False)
    passed = [seq for seq in queued if seq <= state.seq]
    rows = _rows(session, passed)
    looked_at = _taught(rows, snapshot, batch)
    reached = _reached(looked_at, rows, queued[-1])
    passed = [seq for seq in passed if seq <= reached]
    _give_up(session, state, passed)
    _keep(session, state, looked_at)
    accepted = [row for row in looked_at if row.verdict == _ACCEPTED and row.seq <= batch.reach]
    forget_scores(session, AccuracyScore.seq.in_(set(passed) - {row.seq for row in accepted}))
    note_scores(session, snapshot, accepted)
    done = [seq for seq in queued if seq <= reached]
    session.execute(delete(LearningQueue).where(LearningQueue.seq.in_(done)))
    return _Taken(len(done), more=len(done) < len(queued) or len(queued) == batch.turns.rows)


def _take_compared(session: Session, state: LearningState, snapshot: Snapshot, batch: _Batch) -> _Taken:
    """Samples that were compared with what the catalog no longer says."""
    revision = snapshot.compared_revision()
    asked = select(LearningSample.seq).where(LearningSample.catalog_revision < revision)
    old = session.scalars(asked.order_by(LearningSample.seq).limit(batch.turns.rows)).all()
    if not old:
        return _Taken(0, more=False)
    rows = _rows(session, old)
    looked_at = _taught(rows, snapshot, batch)
    reached = _reached(looked_at, rows, old[-1])
    done = [seq for seq in old if seq <= reached]
    _give_up(session, state, done)
    _keep(session, state, looked_at)
    return _Taken(len(done), more=len(done) < len(old) or len(old) == batch.turns.rows)


def _rows(session: Session, seqs: Sequence[int]) -> Sequence[Measurement]:
    return session.scalars(select(Measurement).where(Measurement.seq.in_(seqs)).order_by(Measurement.seq)).all()


def _give_up(session: Session, state: LearningState, seqs: Sequence[int]) -> None:
    if seqs:
        gone = session.execute(delete(LearningSample).where(LearningSample.seq.in_(seqs)))
        state.taken += gone.rowcount  # type: ignore[attr-defined]  # a cursor's result


_Lessons = dict[Measurement, dict[str, Any] | None]


def _taught(rows: Iterable[Measurement], snapshot: Snapshot, batch: _Batch) -> _Lessons:
    """What rows teach, each None where it is nothing; of as many as the turn has time for, one at least."""
    looked_at: _Lessons = {}
    for row in rows:
        looked_at[row] = _sample(row, snapshot, batch.memo) if row.verdict == _ACCEPTED else None
        if batch.turns.is_over():
            break
    return looked_at


def _reached(looked_at: _Lessons, rows: Sequence[Measurement], last: int) -> int:
    """How far a turn came that was to look at rows, and to come to `last` with them."""
    return last if len(looked_at) == len(rows) else next(reversed(looked_at)).seq


def _keep(session: Session, state: LearningState, lessons: _Lessons) -> None:
    """Keep what rows teach, and of each probe and cell only the newest."""
    samples = [sample for sample in lessons.values() if sample is not None]
    if samples:
        state.taken += 1
        session.execute(insert(LearningSample), samples)
        for probe_id in sorted({sample["probe_id"] for sample in samples}):
            _trim(session, probe_id)


def _sample(row: Measurement, snapshot: Snapshot, memo: Memo) -> dict[str, Any] | None:
    """What a row teaches, as it is stored; None where it teaches nothing."""
    try:
        found = observe(json.loads(row.content), snapshot, memo)
        return None if found is None else _written(row, *found, snapshot.revision)
    except Exception as error:  # noqa: BLE001  # one row that nobody thought of must not end all learning
        _logger.warning("measurement %s cannot be compared (%s)", row.id, type(error).__name__)
        return None


def _written(row: Measurement, scope: Scope, observations: Found, revision: int) -> dict[str, Any]:
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


def _trim(session: Session, probe_id: UUID) -> None:
    own = LearningSample.probe_id == probe_id
    asked = select(LearningSample.seq, LearningSample.cell, LearningSample.measured_at).where(own)
    found = session.execute(asked.order_by(LearningSample.measured_at.desc(), LearningSample.seq.desc())).all()
    kept: dict[str, int] = {}
    gone = []
    for seq, cell, _ in found:
        known = kept.get(cell, 0)
        if known == SAMPLES_KEPT or (not known and len(kept) == CELLS_KEPT):
            gone.append(seq)
        else:
            kept[cell] = known + 1
    if gone:
        session.execute(delete(LearningSample).where(LearningSample.seq.in_(gone)))
