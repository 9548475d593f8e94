"""The catalog's past: which revision a moment had, what an entry went through, and the catalog as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Connection, Select, Subquery, and_, cast, func, select

from service.storage.catalog import CatalogDelta, Key, StoredEntry, facts_of, key_columns, key_of
from service.storage.database import STORED_TEXT, STORED_TIME, stored_bytes, stored_text, stored_time
from service.storage.tables import CATALOG_CHANGE, CATALOG_REVISION

_ROWS_AT_ONCE: Final = 1000
_FACTS: Final = cast(CATALOG_CHANGE.c.facts, STORED_TEXT)
_MADE_AT: Final = cast(CATALOG_REVISION.c.made_at, STORED_TIME)


@dataclass(frozen=True, slots=True)
class EntryRevision:
    """One state of an entry: `action` is created, changed or deleted, and `facts` None after a deletion.

    So is whatever cannot be read, which something else than this service wrote.
    """

    revision: int
    made_at: datetime | None
    author: str | None
    origin: str | None
    summary: str | None
    action: str
    facts: Mapping[str, Any] | None


def revision_at(connection: Connection, moment: datetime) -> int | None:
    """The newest revision made at or before a moment; None before the first."""
    query = select(CATALOG_REVISION.c.id).where(CATALOG_REVISION.c.made_at <= moment)
    return connection.scalar(query.order_by(CATALOG_REVISION.c.id.desc()).limit(1))


def first_revision_at(connection: Connection) -> datetime | None:
    """When the catalog begins; None where it never did, or where that cannot be read."""
    first = connection.scalar(select(_MADE_AT).order_by(CATALOG_REVISION.c.id).limit(1))
    return None if first is None else stored_time(first)


def entry_history(connection: Connection, key: Key, limit: int, below: int) -> list[EntryRevision]:
    """At most `limit` states of an entry, the newest first, from revisions below one."""
    change, made = CATALOG_CHANGE.c, CATALOG_REVISION.c
    texts = (cast(column, STORED_TEXT) for column in (made.author, made.origin, made.summary))
    query: Select[Any] = select(change.revision, _MADE_AT, *texts, change.action, _FACTS)
    query = query.join_from(CATALOG_CHANGE, CATALOG_REVISION)
    query = query.where(change.kind == key[0].value, change.id == key[1], change.revision < below)
    rows = connection.execute(query.order_by(change.revision.desc()).limit(limit))
    return [
        EntryRevision(
            number,
            stored_time(made_at),
            stored_text(author),
            stored_text(origin),
            stored_text(summary),
            action,
            _facts(facts),
        )
        for number, made_at, author, origin, summary, action, facts in rows
    ]


def _facts(stored: str | bytes | None) -> Mapping[str, Any] | None:
    found = None if stored is None else facts_of(stored)
    return found if isinstance(found, dict) else None


def way_back(connection: Connection, revision: int) -> CatalogDelta:
    """What turns any later catalog into that of `revision`: entries as they were then, and those that were not there.

    An entry that has not changed since is not touched: a snapshot of the past shares it with the present one.
    """
    entries: list[StoredEntry] = []
    absent: list[Key] = []
    for (kind, entry_id), state in _states_at(connection, revision):
        if state is None:
            absent.append((kind, entry_id))
        else:
            entries.append(state)
    return CatalogDelta(revision, tuple(entries), tuple(absent))


def _states_at(connection: Connection, revision: int) -> Iterator[tuple[Key, StoredEntry | None]]:
    """Every entry that changed after `revision`, with its state then; None where it was not there."""
    rows = connection.execute(_past_states(revision), execution_options={"yield_per": _ROWS_AT_ONCE})
    for row in rows:
        if key := key_of(row):
            there = row.action not in {None, "deleted"} and row.facts is not None
            yield key, StoredEntry(*key, stored_bytes(row.facts), row.revision) if there else None


def _past_states(revision: int) -> Select[Any]:
    touched = _touched_after(revision)
    then, earlier = CATALOG_CHANGE.alias(), CATALOG_CHANGE.alias()
    newest_then = (
        select(func.max(earlier.c.revision))
        .where(earlier.c.kind == touched.c.kind, earlier.c.id == touched.c.id, earlier.c.revision <= revision)
        .scalar_subquery()
    )
    same = and_(then.c.kind == touched.c.kind, then.c.id == touched.c.id, then.c.revision == newest_then)
    facts = cast(then.c.facts, STORED_TEXT).label("facts")
    columns = *key_columns(touched.c), then.c.revision, then.c.action, facts
    return select(*columns).select_from(touched).outerjoin(then, same)


def _touched_after(revision: int) -> Subquery:
    query = select(CATALOG_CHANGE.c.kind, CATALOG_CHANGE.c.id).distinct()
    return query.where(CATALOG_CHANGE.c.revision > revision).subquery("touched")
