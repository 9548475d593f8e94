"""The catalog's past: which revision a moment had, what an entry went through, and the catalog as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sqlalchemy import Select, Subquery, Text, and_, cast, func, select
from sqlalchemy.orm import Session, aliased

from service.domain.catalog import CatalogKind
from service.storage.catalog import CatalogDelta, Key, StoredEntry
from service.storage.tables import CatalogChange, CatalogRevision

_ROWS_AT_ONCE: Final = 1000
_KINDS: Final = {kind.value: kind for kind in CatalogKind}


@dataclass(frozen=True, slots=True)
class EntryRevision:
    """One state of an entry: `action` is created, changed or deleted, and `facts` None after a deletion."""

    revision: int
    made_at: datetime
    author: str
    origin: str
    summary: str
    action: str
    facts: Mapping[str, Any] | None


def revision_at(session: Session, moment: datetime) -> int | None:
    """The newest revision made at or before a moment; None before the first."""
    query = select(CatalogRevision.id).where(CatalogRevision.made_at <= moment)
    return session.scalar(query.order_by(CatalogRevision.id.desc()).limit(1))


def first_revision_at(session: Session) -> datetime | None:
    """When the catalog begins; None where it never did."""
    return session.scalar(select(CatalogRevision.made_at).order_by(CatalogRevision.id).limit(1))


def entry_history(session: Session, key: Key, limit: int, below: int) -> list[EntryRevision]:
    """At most `limit` states of an entry, the newest first, from revisions below one."""
    query = select(CatalogChange, CatalogRevision).join(CatalogRevision)
    query = query.where(CatalogChange.kind == key[0].value, CatalogChange.id == key[1], CatalogChange.revision < below)
    rows = session.execute(query.order_by(CatalogChange.revision.desc()).limit(limit))
    return [
        EntryRevision(made.id, made.made_at, made.author, made.origin, made.summary, change.action, change.facts)
        for change, made in rows
    ]


def way_back(session: Session, revision: int) -> CatalogDelta:
    """What turns any later catalog into that of `revision`: entries as they were then, and those that were not there.

    An entry that has not changed since is not touched: a snapshot of the past shares it with the present one.
    """
    entries: list[StoredEntry] = []
    absent: list[Key] = []
    for (kind, entry_id), state in _states_at(session, revision):
        if state is None:
            absent.append((kind, entry_id))
        else:
            entries.append(state)
    return CatalogDelta(revision, tuple(entries), tuple(absent))


def _states_at(session: Session, revision: int) -> Iterator[tuple[Key, StoredEntry | None]]:
    """Every entry that changed after `revision`, with its state then; None where it was not there."""
    rows = session.execute(_past_states(revision), execution_options={"yield_per": _ROWS_AT_ONCE})
    for kind_name, entry_id, changed_in, action, facts in rows:
        kind = _KINDS.get(kind_name)
        if kind is not None:
            there = action is not None and action != "deleted"
            state = StoredEntry(kind, entry_id, facts.encode(), changed_in) if there else None
            yield (kind, entry_id), state


def _past_states(revision: int) -> Select[Any]:
    touched = _touched_after(revision)
    then, earlier = aliased(CatalogChange), aliased(CatalogChange)
    newest_then = (
        select(func.max(earlier.revision))
        .where(earlier.kind == touched.c.kind, earlier.id == touched.c.id, earlier.revision <= revision)
        .scalar_subquery()
    )
    same = and_(then.kind == touched.c.kind, then.id == touched.c.id, then.revision == newest_then)
    columns = touched.c.kind, touched.c.id, then.revision, then.action, cast(then.facts, Text)
    return select(*columns).select_from(touched).outerjoin(then, same)


def _touched_after(revision: int) -> Subquery:
    query = select(CatalogChange.kind, CatalogChange.id).distinct()
    return query.where(CatalogChange.revision > revision).subquery("touched")
