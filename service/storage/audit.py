"""The audit: one row for each act, written in the transaction that acts, and never changed after."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, insert

from service.storage.tables import AUDIT_EVENT


@dataclass(frozen=True, slots=True)
class Event:
    """What was done: `action` in the words of the audit (`catalog.changed`), `subject` as `gpu/h100-sxm-80gb`."""

    actor: str
    action: str
    subject: str
    revision: int | None = None
    request_id: str | None = None
    before_digest: str | None = None
    after_digest: str | None = None
    note: str | None = None


def record(connection: Connection, event: Event) -> None:
    """Add an event to the audit; it is there once the transaction is committed, and not before."""
    connection.execute(
        insert(AUDIT_EVENT).values(
            happened_at=datetime.now(UTC),
            actor=event.actor,
            action=event.action,
            subject=event.subject,
            revision=event.revision,
            request_id=event.request_id,
            before_digest=event.before_digest,
            after_digest=event.after_digest,
            note=event.note,
        )
    )
