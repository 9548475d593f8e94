"""Deciding whose rows are believed, and judging by it again what they sent before.

A decision counts from its commit on: uploads that were judged without it are judged once more. What is stored follows
in batches, so that a sender of millions of rows is no long transaction; the next run takes up what one left undone.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from time import monotonic
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Connection, Engine, Row, func, insert, select, update

from service.domain.measurement import Lookups
from service.domain.trust import Decision, Sender
from service.storage import audit
from service.storage.database import hold, writing
from service.storage.measurement_settling import JUDGED_COLUMNS, ROWS_AT_ONCE, hold_judging, judge_again
from service.storage.measurement_tables import ACCURACY_SCORE, MEASUREMENT, MEASUREMENT_PROBE
from service.storage.measurement_writes import JUDGING_LOCK
from service.storage.scores import forget_scores
from service.storage.snapshot import Snapshot
from service.storage.tables import API_TOKEN, TRUST_DECISION
from service.storage.trust import next_unsettled, read_distrust, trust_revision
from service.storage.turns import Turns

_SPAN: Final = 50_000
"""Rows of all senders that are looked through at once, as no index leads to those of a token."""


class SenderError(ValueError):
    """What was decided cannot be: nobody knows the sender, or it is so already."""


@dataclass(frozen=True, slots=True)
class Change:
    """A decision on one sender; `decision` is None where it is trusted again."""

    sender: Sender
    sender_id: str
    decision: Decision | None
    author: str


def decide(database: Engine, change: Change) -> int:
    """Write a decision down and take the sender's scores out of the accuracy; its number. Raises SenderError."""
    with writing(database) as connection:
        hold(connection, JUDGING_LOCK)
        _check(connection, change)
        number = trust_revision(connection) + 1
        last = connection.scalar(select(func.max(MEASUREMENT.c.seq))) or 0
        _drop_older(connection, change)
        connection.execute(insert(TRUST_DECISION).values(_row(change, number, last)))
        if change.decision is not None:
            forget_scores(connection, *_scored(change, change.decision.since))
        audit.record(connection, _event(change))
        return number


def _check(connection: Connection, change: Change) -> None:
    named = f"{change.sender} {change.sender_id}"
    if not _is_known(connection, change):
        raise SenderError(f"Nobody knows a {named}.")
    held = read_distrust(connection).senders.get((change.sender, change.sender_id))
    if held == change.decision:
        raise SenderError(f"The {named} is {'trusted' if held is None else 'distrusted for just that'} already.")


def _is_known(connection: Connection, change: Change) -> bool:
    asked = (
        select(MEASUREMENT_PROBE.c.probe_id).where(MEASUREMENT_PROBE.c.probe_id == UUID(change.sender_id))
        if change.sender is Sender.PROBE
        else select(API_TOKEN.c.id).where(API_TOKEN.c.id == change.sender_id)
    )
    return connection.execute(asked).first() is not None


def _drop_older(connection: Connection, change: Change) -> None:
    """Rows need not be judged by a decision that holds no more."""
    older = (TRUST_DECISION.c.sender == change.sender, TRUST_DECISION.c.sender_id == change.sender_id)
    connection.execute(update(TRUST_DECISION).where(*older).values(done_seq=TRUST_DECISION.c.last_seq))


def _row(change: Change, number: int, last: int) -> dict[str, Any]:
    since, reason = change.decision or (None, "")
    return {
        "id": number,
        "made_at": datetime.now(UTC),
        "author": change.author,
        "sender": change.sender.value,
        "sender_id": change.sender_id,
        "trusted": change.decision is None,
        "since": since,
        "reason": reason,
        "done_seq": 0,
        "last_seq": last,
    }


def _event(change: Change) -> audit.Event:
    subject = f"{change.sender}/{change.sender_id}"
    if change.decision is None:
        return audit.Event(change.author, "sender.trusted", subject)
    since, reason = change.decision
    note = reason if since is None else f"since {since.isoformat()}: {reason}"
    return audit.Event(change.author, "sender.distrusted", subject, note=note)


def _scored(change: Change, since: datetime | None) -> list[ColumnElement[bool]]:
    """Scores of the sender's rows, also of rows that are stored no more."""
    own: ColumnElement[bool] = (
        ACCURACY_SCORE.c.probe_id == UUID(change.sender_id)
        if change.sender is Sender.PROBE
        else ACCURACY_SCORE.c.token_id == change.sender_id
    )
    return [own] if since is None else [own, ACCURACY_SCORE.c.received_at >= since]


def settle_decisions(database: Engine, snapshot: Snapshot, seconds: float) -> bool:
    """Judge what distrusted senders had sent, for about so many seconds; whether nothing is left."""
    until, lookups = monotonic() + seconds, Lookups(snapshot, snapshot.distrust)
    turns = Turns(database, ROWS_AT_ONCE)
    while _settle_next(turns, lookups):
        if monotonic() > until:
            return False
    return True


def _settle_next(turns: Turns, lookups: Lookups) -> bool:
    """Judge one batch; whether there was one."""
    count = turns.rows
    with turns.take() as connection:
        decision = next_unsettled(connection) if hold_judging(connection, lookups) else None
        if decision is None:
            return False
        asked = select(*JUDGED_COLUMNS).where(*_unjudged(decision)).order_by(MEASUREMENT.c.seq).limit(count)
        rows = connection.execute(asked).all()
        judge_again(connection, rows, lookups)
        reached = rows[-1].seq if len(rows) == count else decision.done_seq + _SPAN
        done = {"done_seq": min(reached, decision.last_seq)}
        connection.execute(update(TRUST_DECISION).where(TRUST_DECISION.c.id == decision.id).values(done))
    turns.did(len(rows))
    return True


def _unjudged(decision: Row[Any]) -> list[ColumnElement[bool]]:
    own: ColumnElement[bool] = (
        MEASUREMENT.c.probe_id == UUID(decision.sender_id)
        if decision.sender == Sender.PROBE
        else MEASUREMENT.c.token_id == decision.sender_id
    )
    first, last = decision.done_seq, min(decision.done_seq + _SPAN, decision.last_seq)
    return [own, MEASUREMENT.c.seq > first, MEASUREMENT.c.seq <= last]
