"""Queries of the catalog: what it says now, what changed since a revision, and the one way to change it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import Text, cast, delete, func, insert, select
from sqlalchemy.orm import Session

from service.domain.catalog import CatalogKind
from service.storage.canonical import facts_digest
from service.storage.tables import CatalogChange, CatalogEntry, CatalogRevision

Key = tuple[CatalogKind, str]
Item = TypeVar("Item")

# Any number that no other lock of the database uses; spells "catalog" in ASCII.
_CATALOG_LOCK: Final = 0x636174616C6F67
_ROWS_AT_ONCE: Final = 1000
_KINDS: Final = {kind.value: kind for kind in CatalogKind}


@dataclass(frozen=True, slots=True)
class Change:
    """What an entry shall be; `facts` None deletes it."""

    kind: CatalogKind
    id: str
    facts: Mapping[str, Any] | None


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry with its facts still as JSON text, which is parsed when somebody asks for it."""

    kind: CatalogKind
    id: str
    facts_json: bytes
    revision: int


@dataclass(frozen=True, slots=True)
class CatalogDelta:
    """What became of the catalog between two revisions: the entries that changed, as they are now, and those gone."""

    revision: int
    entries: tuple[StoredEntry, ...]
    deleted: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class EntryState:
    """What a writer compares with: the digest of the facts, the revision they came in, and where that came from."""

    digest: str
    revision: int
    origin: str


def current_revision(session: Session) -> int:
    """The newest revision, 0 for a catalog never loaded; reads one row."""
    newest = select(CatalogRevision.id).order_by(CatalogRevision.id.desc()).limit(1)
    return session.scalar(newest) or 0


def read_entries(session: Session, since_revision: int = 0) -> CatalogDelta:
    """Entries changed after a revision, and those deleted since; all entries for 0.

    Two tables are read: only a `read_session` or a `write_session` shows both at the same moment.
    """
    revision = current_revision(session)
    entries = tuple(_entries_after(session, since_revision))
    gone: tuple[Key, ...] = ()
    if since_revision:
        present = {(entry.kind, entry.id) for entry in entries}
        gone = tuple(key for key in _deleted_after(session, since_revision) if key not in present)
    return CatalogDelta(revision, entries, gone)


def lock_catalog(session: Session) -> None:
    """Keep other writers of the catalog out until this transaction ends; readers go on.

    Revisions therefore become visible in their order: who saw revision N never finds another one below it later.
    SQLite has one writer at a time anyway, see `write_session`.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_CATALOG_LOCK)))


def entry_states(session: Session, keys: Collection[Key] | None = None) -> dict[Key, EntryState]:
    """State of the named entries, or of all; those that do not exist are left out."""
    query = select(CatalogEntry.kind, CatalogEntry.id, CatalogEntry.digest, CatalogEntry.revision, CatalogEntry.origin)
    if keys is None:
        rows: Iterable[Any] = session.execute(query)
    else:
        rows = (
            row
            for kind, ids in _in_batches(keys)
            for row in session.execute(query.where(CatalogEntry.kind == kind, CatalogEntry.id.in_(ids)))
        )
    return {
        (_KINDS[row.kind], row.id): EntryState(row.digest, row.revision, row.origin)
        for row in rows
        if row.kind in _KINDS
    }


def read_facts(session: Session, keys: Collection[Key]) -> dict[Key, dict[str, Any]]:
    """Facts of the named entries; those that do not exist are left out."""
    query = select(CatalogEntry.kind, CatalogEntry.id, CatalogEntry.facts)
    return {
        (_KINDS[row.kind], row.id): row.facts
        for kind, ids in _in_batches(keys)
        for row in session.execute(query.where(CatalogEntry.kind == kind, CatalogEntry.id.in_(ids)))
    }


def keys_ever_from(session: Session, origin: str, keys: Collection[Key]) -> set[Key]:
    """Those of the named entries that a revision of that origin once touched."""
    query = select(CatalogChange.kind, CatalogChange.id).distinct().join(CatalogRevision)
    query = query.where(CatalogRevision.origin == origin)
    return {
        (_KINDS[row.kind], row.id)
        for kind, ids in _in_batches(keys)
        for row in session.execute(query.where(CatalogChange.kind == kind, CatalogChange.id.in_(ids)))
    }


def keys_deleted_by_others(session: Session, origin: str, keys: Collection[Key]) -> set[Key]:
    """Those of the named entries whose last change was a deletion that came from another origin."""
    query = (
        select(CatalogChange.kind, CatalogChange.id, CatalogChange.action, CatalogRevision.origin)
        .join(CatalogRevision)
        .order_by(CatalogChange.revision)
    )
    last = {
        (_KINDS[row.kind], row.id): row.action == "deleted" and row.origin != origin
        for kind, ids in _in_batches(keys)
        for row in session.execute(query.where(CatalogChange.kind == kind, CatalogChange.id.in_(ids)))
    }
    return {key for key, deleted in last.items() if deleted}


def apply_changes(session: Session, changes: Iterable[Change], author: str, origin: str, summary: str) -> int | None:
    """Write changes as one revision and return it; None, and no revision, where nothing differs from what is stored.

    `session` is a `write_session`; `author`, `origin` and `summary` say who, where from and what for. An entry may be
    named once. Facts that JSON cannot hold raise ValueError.
    """
    lock_catalog(session)
    wanted = list(changes)
    states = entry_states(session, [(change.kind, change.id) for change in wanted])
    rows = [row for change in wanted if (row := _change_row(change, states.get((change.kind, change.id))))]
    if not rows:
        return None
    revision = _add_revision(session, author, origin, summary)
    for row in rows:
        row["revision"] = revision
    _insert(session, CatalogChange, rows)
    _replace_entries(session, rows, origin)
    return revision


def _entries_after(session: Session, revision: int) -> Iterator[StoredEntry]:
    columns = CatalogEntry.kind, CatalogEntry.id, cast(CatalogEntry.facts, Text), CatalogEntry.revision
    query = select(*columns).where(CatalogEntry.revision > revision)
    # In portions: the peak while loading 10^5 entries would stay with the worker for good.
    for kind, entry_id, facts, changed_in in session.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}):
        if kind in _KINDS:
            yield StoredEntry(_KINDS[kind], entry_id, facts.encode(), changed_in)


def _deleted_after(session: Session, revision: int) -> Iterator[Key]:
    gone = CatalogChange.revision > revision, CatalogChange.action == "deleted"
    for kind, entry_id in session.execute(select(CatalogChange.kind, CatalogChange.id).distinct().where(*gone)):
        if kind in _KINDS:
            yield _KINDS[kind], entry_id


def _in_batches(keys: Collection[Key]) -> Iterator[tuple[CatalogKind, Sequence[str]]]:
    for kind, group in groupby(sorted(keys), key=itemgetter(0)):
        for ids in _portions([entry_id for _, entry_id in group]):
            yield kind, ids


def _change_row(change: Change, stored: EntryState | None) -> dict[str, Any] | None:
    """A row of the history without its revision, None where the entry already is what it shall be."""
    digest = None if change.facts is None else facts_digest(change.facts)
    if digest == (stored.digest if stored else None):
        return None
    action = "deleted" if change.facts is None else "changed" if stored else "created"
    return {"kind": change.kind.value, "id": change.id, "action": action, "facts": change.facts, "digest": digest}


def _add_revision(session: Session, author: str, origin: str, summary: str) -> int:
    newest = select(CatalogRevision.id, CatalogRevision.made_at).order_by(CatalogRevision.id.desc()).limit(1)
    last = session.execute(newest).first()
    now = datetime.now(UTC)
    revision = CatalogRevision(
        id=last.id + 1 if last else 1,
        # Times rise with revisions even where a clock was set back: history is asked by time.
        made_at=max(now, last.made_at) if last else now,
        author=author,
        origin=origin,
        summary=summary,
    )
    session.add(revision)
    session.flush()
    return revision.id


def _replace_entries(session: Session, rows: Sequence[Mapping[str, Any]], origin: str) -> None:
    for kind, ids in _in_batches([(CatalogKind(row["kind"]), row["id"]) for row in rows if row["action"] != "created"]):
        session.execute(
            delete(CatalogEntry).where(CatalogEntry.kind == kind, CatalogEntry.id.in_(ids)),
            execution_options={"synchronize_session": False},
        )
    columns = "kind", "id", "facts", "digest", "revision"
    kept = [{name: row[name] for name in columns} | {"origin": origin} for row in rows if row["action"] != "deleted"]
    _insert(session, CatalogEntry, kept)


def _insert(session: Session, table: type[CatalogChange | CatalogEntry], rows: Sequence[dict[str, Any]]) -> None:
    for part in _portions(rows):
        session.execute(insert(table), part)


def _portions(rows: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]
