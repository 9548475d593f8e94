"""Who is distrusted, as it is stored: every decision ever made, of which the newest on a probe or a token holds."""

from __future__ import annotations

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from service.domain.trust import Decision, Distrust, Sender
from service.storage.database import read_session
from service.storage.tables import TrustDecision


def read_distrust(session: Session) -> Distrust:
    """Whose rows are not believed now."""
    decisions = session.scalars(select(TrustDecision).order_by(TrustDecision.id)).all()
    newest = {(Sender(made.sender), made.sender_id): made for made in decisions}
    held = {sender: Decision(made.since, made.reason) for sender, made in newest.items() if not made.trusted}
    return Distrust(decisions[-1].id if decisions else 0, held)


def trust_revision(session: Session) -> int:
    """The newest decision, 0 before the first."""
    return session.scalar(select(func.max(TrustDecision.id))) or 0


def next_unsettled(session: Session) -> TrustDecision | None:
    """The first decision that rows stored before it are still to be judged by."""
    asked = select(TrustDecision).where(TrustDecision.done_seq < TrustDecision.last_seq)
    return session.scalars(asked.order_by(TrustDecision.id).limit(1)).first()


def has_unsettled(sessions: sessionmaker[Session]) -> bool:
    """Whether rows may carry a verdict from before a decision."""
    with read_session(sessions) as session:
        return next_unsettled(session) is not None
