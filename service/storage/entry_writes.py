"""Writing one entry: judged and written under the catalog's lock, so that no writer overwrites what it has not seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import Connection, Engine

from service.domain.catalog import Entry
from service.storage import audit
from service.storage.canonical import facts_digest
from service.storage.catalog import Change, apply_changes, current_revision, lock_catalog, read_entries
from service.storage.catalog_diff import differences
from service.storage.database import writing
from service.storage.snapshot import Snapshot
from service.storage.tokens import Token, note_use
from service.storage.values import parsed

API_ORIGIN: Final = "api"
_FIELDS_NAMED: Final = 5

Permit = Callable[[Snapshot, Entry | None], None]


@dataclass(frozen=True, slots=True)
class Writer:
    """Who writes, and by which request."""

    token: Token
    request_id: str | None


@dataclass(frozen=True, slots=True)
class Written:
    """What a write left: the entry as it is stored now, None once it is gone, and whether it was not there before."""

    entry: Entry | None
    created: bool


def write_entry(database: Engine, known: Snapshot, change: Change, writer: Writer, permit: Permit) -> Written:
    """Make an entry what `change` says, as a revision of its own; none where it says that already.

    `permit` is called under the lock with the catalog as it is at that moment and the entry as it is, and raises what
    speaks against the change; until the end of the transaction nobody else writes. `known` is a snapshot at hand, of
    any age: only what has changed since is read.
    """
    with writing(database) as connection:
        lock_catalog(connection)
        present = _brought_up_to_date(connection, known)
        stored = present.by_id(change.kind, change.id)
        before = parsed(stored) if stored else None
        permit(present, before)
        note_use(connection, writer.token, datetime.now(UTC))
        summary = _summary(change, before)
        revision = apply_changes(connection, [change], writer.token.actor, API_ORIGIN, summary)
        if revision is not None:
            audit.record(connection, _event(change, before, writer, revision, summary))
        return Written(_after(change, before, revision), created=before is None)


def _brought_up_to_date(connection: Connection, known: Snapshot) -> Snapshot:
    revision = current_revision(connection)
    if revision == known.revision:
        return known
    if revision < known.revision:
        # Another database, or this one restored from a backup.
        return Snapshot.empty().changed(read_entries(connection))
    return known.changed(read_entries(connection, known.revision))


def _after(change: Change, before: Entry | None, revision: int | None) -> Entry | None:
    if change.facts is None:
        return None
    # Facts that were there already stay as they were spelled, in the order they were in.
    return before if revision is None else Entry(change.kind, change.id, change.facts, revision)


def _summary(change: Change, before: Entry | None) -> str:
    """What the revision says of itself: the first few fields that differ, with their values."""
    subject = f"{change.kind} {change.id}"
    if change.facts is None or before is None:
        return f"{'deleted' if change.facts is None else 'created'} {subject}"
    lines = list(differences(before.facts, change.facts))
    more = f"; and {len(lines) - _FIELDS_NAMED} more" if len(lines) > _FIELDS_NAMED else ""
    return f"changed {subject}: {'; '.join(lines[:_FIELDS_NAMED])}{more}"


def _event(change: Change, before: Entry | None, writer: Writer, revision: int, summary: str) -> audit.Event:
    act = "deleted" if change.facts is None else "changed" if before else "created"
    return audit.Event(
        actor=writer.token.actor,
        action=f"catalog.{act}",
        subject=f"{change.kind}/{change.id}",
        revision=revision,
        request_id=writer.request_id,
        before_digest=_digest(before.facts if before else None),
        after_digest=_digest(change.facts),
        note=summary,
    )


def _digest(facts: Any) -> str | None:  # noqa: ANN401  # any entry's facts
    return None if facts is None else facts_digest(facts)
