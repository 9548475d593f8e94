"""Who is distrusted, as it is stored: every decision ever made, of which the newest on a probe or a token holds."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Engine, Row, func, select

from service.domain.trust import Decision, Distrust, Sender
from service.storage.database import reading
from service.storage.tables import TRUST_DECISION


def read_distrust(connection: Connection) -> Distrust:
    """Whose rows are not believed now."""
    decisions = connection.execute(select(TRUST_DECISION).order_by(TRUST_DECISION.c.id)).all()
    newest = {(Sender(made.sender), made.sender_id): made for made in decisions}
    held = {sender: Decision(made.since, made.reason) for sender, made in newest.items() if not made.trusted}
    return Distrust(decisions[-1].id if decisions else 0, held)


def trust_revision(connection: Connection) -> int:
    """The newest decision, 0 before the first."""
    return connection.scalar(select(func.max(TRUST_DECISION.c.id))) or 0


def next_unsettled(connection: Connection) -> Row[Any] | None:
    """The first decision that rows stored before it are still to be judged by."""
    asked = select(TRUST_DECISION).where(TRUST_DECISION.c.done_seq < TRUST_DECISION.c.last_seq)
    return connection.execute(asked.order_by(TRUST_DECISION.c.id).limit(1)).first()


def has_unsettled(database: Engine) -> bool:
    """Whether rows may carry a verdict from before a decision."""
    with reading(database) as connection:
        return next_unsettled(connection) is not None
