"""Queries of the catalog: what it says now, what changed since a revision, and the one way to change it."""

from __future__ import annotations

import json
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    Row,
    Select,
    Table,
    Text,
    and_,
    cast,
    delete,
    insert,
    outerjoin,
    select,
)

from service.domain.catalog import CatalogKind
from service.storage.canonical import checked_json, facts_digest
from service.storage.database import STORED_TEXT, STORED_TIME, hold, stored_bytes, stored_text, stored_time
from service.storage.tables import CATALOG_CHANGE, CATALOG_ENTRY, CATALOG_REVISION

_logger: Final = logging.getLogger(__name__)

Key = tuple[CatalogKind, str]
Item = TypeVar("Item")

# Any number that no other lock of the database uses; spells "catalog" in ASCII.
_CATALOG_LOCK: Final = 0x636174616C6F67
_ROWS_AT_ONCE: Final = 1000
_KINDS: Final = {kind.value: kind for kind in CatalogKind}
_FACTS: Final = cast(CATALOG_ENTRY.c.facts, STORED_TEXT)
_NO_DIGEST: Final = ""
_REVISION: Final = cast(CATALOG_ENTRY.c.revision, Integer)
# SQLite keeps as a number what is none, unless it can be read as one.
_SOUND_REVISION: Final = _REVISION.label("revision"), (CATALOG_ENTRY.c.revision == _REVISION).label("is_whole")


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
    """What a writer compares with: the digest of the facts, the revision they came in, and where that came from.

    The digest is empty where the facts are no object or another value of the row is damaged: no facts are the same as
    those. A damaged origin is that of the revision, or None where that one is damaged too.
    """

    digest: str
    revision: int
    origin: str | None


def current_revision(connection: Connection) -> int:
    """The newest revision, 0 for a catalog never loaded; reads one row."""
    newest = select(CATALOG_REVISION.c.id).order_by(CATALOG_REVISION.c.id.desc()).limit(1)
    return connection.scalar(newest) or 0


def read_entries(connection: Connection, since_revision: int = 0) -> CatalogDelta:
    """Entries changed after a revision, and those deleted since; all entries for 0.

    Two tables are read: only `reading` or `writing` shows both at the same moment.
    """
    revision = current_revision(connection)
    entries = tuple(_entries_after(connection, since_revision))
    gone: tuple[Key, ...] = ()
    if since_revision:
        present = {(entry.kind, entry.id) for entry in entries}
        gone = tuple(key for key in _deleted_after(connection, since_revision) if key not in present)
    return CatalogDelta(revision, entries, gone)


def lock_catalog(connection: Connection) -> None:
    """Keep other writers of the catalog out until this transaction ends; readers go on.

    Revisions therefore become visible in their order: who saw revision N never finds another one below it later.
    SQLite has one writer at a time anyway, see `writing`.
    """
    hold(connection, _CATALOG_LOCK)


def entry_states(connection: Connection, keys: Collection[Key] | None = None) -> dict[Key, EntryState]:
    """State of the named entries, or of all; those that do not exist are left out."""
    entry = CATALOG_ENTRY.c
    columns = *key_columns(entry), *_SOUND_REVISION, _FACTS.label("facts")
    texts = {"digest": entry.digest, "origin": entry.origin, "made_in": CATALOG_REVISION.c.origin}
    query: Select[Any] = select(*columns, *(cast(text, STORED_TEXT).label(name) for name, text in texts.items()))
    query = query.select_from(outerjoin(CATALOG_ENTRY, CATALOG_REVISION))
    if keys is None:
        rows: Iterable[Any] = connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE})
    else:
        rows = (
            row
            for kind, ids in _in_batches(keys)
            for row in connection.execute(query.where(CATALOG_ENTRY.c.kind == kind, CATALOG_ENTRY.c.id.in_(ids)))
        )
    return {key: _state(row) for row in rows if (key := key_of(row))}


def key_columns(columns: Any) -> tuple[ColumnElement[Any], ...]:  # noqa: ANN401  # the columns of a table or of a query
    """What `key_of` reads a key from: its two columns, and whether both are texts, which SQLite does not see to."""
    both = columns.kind, columns.id
    kind, entry_id = (cast(column, STORED_TEXT) for column in both)
    # A blob equals no text, not even that of the same bytes.
    is_text = and_(*(column == cast(column, Text) for column in both))
    return kind.label("kind"), entry_id.label("id"), is_text.label("is_text")


def key_of(row: Row[Any]) -> Key | None:
    """The key of an entry; None where this release has no such kind, and where something else wrote what is no text."""
    try:
        kind, entry_id = (stored_bytes(value).decode() for value in (row.kind, row.id))
    except UnicodeDecodeError:
        return None
    return (_KINDS[kind], entry_id) if row.is_text and kind in _KINDS else None


def read_facts(connection: Connection, keys: Collection[Key]) -> dict[Key, Any]:
    """Facts of the named entries, as text where they are damaged; those that do not exist are left out."""
    query = select(CATALOG_ENTRY.c.kind, CATALOG_ENTRY.c.id, _FACTS.label("facts"))
    return {
        (_KINDS[row.kind], row.id): facts_of(row.facts)
        for kind, ids in _in_batches(keys)
        for row in connection.execute(query.where(CATALOG_ENTRY.c.kind == kind, CATALOG_ENTRY.c.id.in_(ids)))
    }


def facts_of(stored: str | bytes) -> Any:  # noqa: ANN401  # whatever stands there
    """Facts as they are stored, or the text itself where `checked_json` does not read it."""
    raw = stored_bytes(stored)
    with suppress(ValueError):
        checked_json(raw)
        # Which keeps every digit of a number.
        return json.loads(raw)
    return raw.decode(errors="replace")


def _state(row: Row[Any]) -> EntryState:
    digest, origin = stored_text(row.digest), stored_text(row.origin)
    sound = row.is_whole and origin is not None and _is_object(row.facts)
    made_in = None if row.made_in is None else stored_text(row.made_in)
    return EntryState(digest if sound and digest else _NO_DIGEST, row.revision, made_in if origin is None else origin)


def _is_object(facts: str | bytes) -> bool:
    try:
        return isinstance(checked_json(stored_bytes(facts)), dict)
    except ValueError:
        return False


def keys_ever_from(connection: Connection, origin: str, keys: Collection[Key]) -> set[Key]:
    """Those of the named entries that a revision of that origin once touched."""
    query = select(CATALOG_CHANGE.c.kind, CATALOG_CHANGE.c.id).distinct().join(CATALOG_REVISION)
    query = query.where(CATALOG_REVISION.c.origin == origin)
    return {
        (_KINDS[row.kind], row.id)
        for kind, ids in _in_batches(keys)
        for row in connection.execute(query.where(CATALOG_CHANGE.c.kind == kind, CATALOG_CHANGE.c.id.in_(ids)))
    }


def keys_deleted_by_others(connection: Connection, origin: str, keys: Collection[Key]) -> set[Key]:
    """Those of the named entries whose last change was a deletion that came from another origin."""
    # Compared there: an origin that is no UTF-8 would not come over.
    deleted_by_others = and_(CATALOG_CHANGE.c.action == "deleted", CATALOG_REVISION.c.origin != origin)
    query = (
        select(CATALOG_CHANGE.c.kind, CATALOG_CHANGE.c.id, deleted_by_others.label("deleted_by_others"))
        .join(CATALOG_REVISION)
        .order_by(CATALOG_CHANGE.c.revision)
    )
    last = {
        (_KINDS[row.kind], row.id): row.deleted_by_others
        for kind, ids in _in_batches(keys)
        for row in connection.execute(query.where(CATALOG_CHANGE.c.kind == kind, CATALOG_CHANGE.c.id.in_(ids)))
    }
    return {key for key, deleted in last.items() if deleted}


def apply_changes(
    connection: Connection, changes: Iterable[Change], author: str, origin: str, summary: str
) -> int | None:
    """Write changes as one revision and return it; None, and no revision, where nothing differs from what is stored.

    `connection` is one of `writing`; `author`, `origin` and `summary` say who, where from and what for. An entry may be
    named once. Facts that JSON cannot hold raise ValueError.
    """
    lock_catalog(connection)
    wanted = list(changes)
    states = entry_states(connection, [(change.kind, change.id) for change in wanted])
    rows = [row for change in wanted if (row := _change_row(change, states.get((change.kind, change.id))))]
    if not rows:
        return None
    revision = _add_revision(connection, author, origin, summary)
    for row in rows:
        row["revision"] = revision
    _insert(connection, CATALOG_CHANGE, rows)
    _replace_entries(connection, rows, origin)
    return revision


def _entries_after(connection: Connection, revision: int) -> Iterator[StoredEntry]:
    entry = CATALOG_ENTRY.c
    columns = *key_columns(entry), *_SOUND_REVISION, _FACTS.label("facts")
    query: Select[Any] = select(*columns).where(entry.revision > revision)
    # In portions: the peak while loading 10^5 entries would stay with the worker for good.
    for row in connection.execute(query, execution_options={"yield_per": _ROWS_AT_ONCE}):
        key = key_of(row)
        if key is not None and not row.is_whole:
            _logger.warning("catalog entry left out: %s %s (its revision is no number)", *key)
        elif key is not None:
            yield StoredEntry(*key, stored_bytes(row.facts), row.revision)
        elif not _is_of_another_release(row):
            _logger.warning("catalog entry left out: %r %r (its key is no text)", *map(stored_bytes, row[:2]))


def _is_of_another_release(row: Row[Any]) -> bool:
    return row.is_text and stored_bytes(row.kind).isascii() and stored_bytes(row.kind).decode() not in _KINDS


def _deleted_after(connection: Connection, revision: int) -> Iterator[Key]:
    gone = CATALOG_CHANGE.c.revision > revision, CATALOG_CHANGE.c.action == "deleted"
    for row in connection.execute(select(*key_columns(CATALOG_CHANGE.c)).distinct().where(*gone)):
        if key := key_of(row):
            yield key


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


def _add_revision(connection: Connection, author: str, origin: str, summary: str) -> int:
    made_at = cast(CATALOG_REVISION.c.made_at, STORED_TIME).label("made_at")
    newest: Select[Any] = select(CATALOG_REVISION.c.id, made_at).order_by(CATALOG_REVISION.c.id.desc()).limit(1)
    last = connection.execute(newest).first()
    now = datetime.now(UTC)
    revision: int = last.id + 1 if last else 1
    # Times rise with revisions even where a clock was set back: history is asked by time.
    before = stored_time(last.made_at) if last else None
    columns = {
        "id": revision,
        "made_at": max(now, before or now),
        "author": author,
        "origin": origin,
        "summary": summary,
    }
    connection.execute(insert(CATALOG_REVISION).values(columns))
    return revision


def _replace_entries(connection: Connection, rows: Sequence[Mapping[str, Any]], origin: str) -> None:
    for kind, ids in _in_batches([(CatalogKind(row["kind"]), row["id"]) for row in rows if row["action"] != "created"]):
        connection.execute(delete(CATALOG_ENTRY).where(CATALOG_ENTRY.c.kind == kind, CATALOG_ENTRY.c.id.in_(ids)))
    columns = "kind", "id", "facts", "digest", "revision"
    kept = [{name: row[name] for name in columns} | {"origin": origin} for row in rows if row["action"] != "deleted"]
    _insert(connection, CATALOG_ENTRY, kept)


def _insert(connection: Connection, table: Table, rows: Sequence[dict[str, Any]]) -> None:
    for part in _portions(rows):
        connection.execute(insert(table), part)


def _portions(rows: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(rows), _ROWS_AT_ONCE):
        yield rows[start : start + _ROWS_AT_ONCE]
