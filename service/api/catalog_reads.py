"""Reading the catalog: pages of its lists, its entries and their history, from memory but for the history."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from flask import Response, request

from service.api import conditional, limits
from service.api.asking import check_accept
from service.api.paging import make_cursor, next_link, read_cursor
from service.api.problems import ProblemError
from service.api.queries import read_query
from service.api.replies import encode, tagged
from service.api.schemas.catalog import ENTRY_QUERY, PAGE_QUERY, CatalogQuery
from service.api.schemas.closed import Asked
from service.api.services import catalog_at, services, snapshot
from service.api.tables import CONTENT_TYPES, Format, Table, chosen_format, written
from service.domain.catalog import CatalogKind, Entry
from service.domain.catalog_rows import flat_row
from service.domain.errors import CatalogUnavailable, QuoteError
from service.domain.model import Model
from service.storage.catalog import StoredEntry
from service.storage.catalog_diff import differences
from service.storage.database import reading
from service.storage.entry_checks import is_slug
from service.storage.history import EntryRevision, entry_history
from service.storage.snapshot import Snapshot

# As a table: what each state changed and was are no cells.
_HISTORY_COLUMNS = ("revision", "made_at", "action", "author", "origin", "summary")
_NAMED_PROBLEMS = {CatalogKind.MODEL: "unknown-model", CatalogKind.GPU: "unknown-gpu"}

# What a kind's entry shows beside its row and its facts; the second argument reads a model, and only a model asks it.
More = Callable[[Entry, Callable[[], Model]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of entry as HTTP sees it; `references` are filters whose values are names of another kind."""

    kind: CatalogKind
    path: str
    query: CatalogQuery
    columns: tuple[str, ...]
    references: Mapping[str, CatalogKind] = field(default_factory=dict)
    more: More = lambda _entry, _read_model: {}


def list_entries(kind: Kind) -> Response:
    """A page of the list, filtered."""
    asked = kind.query.read_texts(read_query(request.environ))
    form = chosen_format(asked.get("format"), request)
    catalog = catalog_at(asked.get("as_of"))
    return _tabled(form, asked, catalog.revision, lambda: _page(kind, asked, catalog))


def show_entry(kind: Kind, name: str) -> Response:
    """One entry, by any of its names; raises ProblemError (404) where nothing answers to it."""
    check_accept(request.environ)
    asked = ENTRY_QUERY.read_texts(read_query(request.environ))
    catalog = catalog_at(asked.get("as_of"))
    stored = found(catalog, kind.kind, name)
    return tagged(conditional.entry_tag(stored), lambda: _shown(kind, catalog, stored))


def list_revisions(kind: Kind, name: str) -> Response:
    """A page of what an entry went through."""
    asked = PAGE_QUERY.read_texts(read_query(request.environ))
    form = chosen_format(asked.get("format"), request)
    catalog = snapshot()
    key = kind.kind, _id_ever(catalog, kind.kind, name)
    return _tabled(form, asked, catalog.revision, lambda: _past(asked, key, catalog))


def entry_document(kind: Kind, entry: Entry, read_model: Callable[[], Model]) -> dict[str, Any]:
    """All that is answered of one entry: its row, its aliases, what its kind adds, and its facts."""
    return {
        **flat_row(entry),
        "aliases": list(entry.facts.get("aliases") or ()),
        **kind.more(entry, read_model),
        "facts": entry.facts,
    }


def found(catalog: Snapshot, kind: CatalogKind, name: str) -> StoredEntry:
    """The entry of that name; raises ProblemError (404) that names the nearest."""
    try:
        return catalog.stored(kind, name)
    except CatalogUnavailable:
        raise
    except QuoteError as error:
        problem = _NAMED_PROBLEMS.get(kind, "not-found")
        raise ProblemError(problem, error.detail, error.faults, status=404) from None


def _shown(kind: Kind, catalog: Snapshot, stored: StoredEntry) -> str:
    entry = catalog.entry(kind.kind, stored.id)
    return encode(entry_document(kind, entry, lambda: catalog.model(stored.id))) + "\n"


def _page(kind: Kind, asked: Asked, catalog: Snapshot) -> Table:
    after = read_cursor(request.path, asked)
    limit = asked.get("limit", limits.PAGE_ENTRIES)
    listing = kind.query.listing({**asked, **_referred(kind, asked, catalog)}, limit, after)
    entries, more = catalog.page(kind.kind, listing)
    cursor = make_cursor(request.path, asked, entries[-1].id) if more else None
    rows = [flat_row(entry) for entry in entries]
    return Table(kind.columns, rows, {"next_cursor": cursor, "catalog_revision": catalog.revision})


def _referred(kind: Kind, asked: Asked, catalog: Snapshot) -> dict[str, list[str]]:
    """Filters that name entries, by their ids; raises QuoteError where nothing answers to a name."""
    return {
        name: [catalog.stored(other, value, f"/{name}/{index}").id for index, value in enumerate(asked[name])]
        for name, other in kind.references.items()
        if name in asked
    }


def _past(asked: Asked, key: tuple[CatalogKind, str], catalog: Snapshot) -> Table:
    limit = asked.get("limit", limits.PAGE_ENTRIES)
    states = _states(key, limit + 1, _below(read_cursor(request.path, asked), catalog.revision))
    if not states:
        found(catalog, *key)
    more = make_cursor(request.path, asked, str(states[limit - 1].revision)) if len(states) > limit else None
    rows = [_state_row(state, before) for state, before in zip(states, [*states, None][1:], strict=True)]
    return Table(_HISTORY_COLUMNS, rows[:limit], {"next_cursor": more, "catalog_revision": catalog.revision})


def _states(key: tuple[CatalogKind, str], count: int, below: int) -> list[EntryRevision]:
    # What can be no id is not asked for: a database may refuse to compare with it.
    if not is_slug(key[1]):
        return []
    with reading(services().engine) as connection:
        return entry_history(connection, key, count, below)


def _below(cursor: str, revision: int) -> int:
    """Where a page begins: not beyond what this process has seen, for the page's tag names that revision."""
    is_number = cursor.isascii() and cursor.isdecimal() and len(cursor) <= limits.NUMERAL_CHARACTERS
    return min(int(cursor), revision + 1) if is_number else revision + 1


def _state_row(state: EntryRevision, before: EntryRevision | None) -> dict[str, Any]:
    known = before is not None and before.facts is not None and state.facts is not None
    return {
        "revision": state.revision,
        "made_at": state.made_at and state.made_at.isoformat().replace("+00:00", "Z"),
        "action": state.action,
        "author": state.author,
        "origin": state.origin,
        "summary": state.summary,
        "changes": list(differences(before.facts, state.facts)) if known and before else [],
        "facts": state.facts,
    }


def _id_ever(catalog: Snapshot, kind: CatalogKind, name: str) -> str:
    """The id that a name leads to, or the name itself, which may be the id of an entry that is gone."""
    ids = catalog.ids_of(kind, name)
    return ids[0] if len(ids) == 1 else name


def _tabled(form: Format, asked: Asked, revision: int, make: Callable[[], Table]) -> Response:
    """A page in the chosen format; not made where the client has it."""
    tag = conditional.question_tag(f"{request.path} {form}", asked, revision)
    if conditional.matches(request.environ.get("HTTP_IF_NONE_MATCH"), tag, exists=False):
        response = conditional.not_modified(tag)
    else:
        table = make()
        response = tagged(tag, lambda: written(table, form), CONTENT_TYPES[form])
        if table.beside["next_cursor"]:
            link = next_link(request.path, read_query(request.environ), table.beside["next_cursor"])
            response.headers["Link"] = link
    response.headers["Vary"] = "Accept"
    return response
