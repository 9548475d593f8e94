"""What an entry must be before it is stored, whether a file or a request brings it: schema, name, sense, conversion."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from service.domain import engines, gpu, model, precision
from service.domain.catalog import CatalogKind, Entry
from service.domain.configs.fields import shown
from service.domain.errors import Fault, QuoteError, UnknownArchitecture
from service.domain.plausible import implausible, oversized

if TYPE_CHECKING:
    # Only for its type: jsonschema takes time and memory that a worker which only reads should not pay.
    from service.storage.catalog_schema import CatalogSchemas

MOST_FAULTS: Final = 50
_SLUG: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,199}")
_READERS: Final = {
    CatalogKind.MODEL: model.from_facts,
    CatalogKind.GPU: gpu.from_facts,
    CatalogKind.DTYPE: precision.from_facts,
    CatalogKind.ENGINE: engines.from_facts,
}
# Readers speak of an entry and of a question's model; in the facts these are the document and its config.
_POINTERS: Final = (("/facts", ""), ("/model", "/config"))


def entry_faults(entry: Entry, schemas: CatalogSchemas, named_by: str = "the file is named") -> list[Fault]:
    """Everything wrong with an entry, at most fifty; an architecture that no reader knows yet is nothing wrong.

    Pointers lead into the facts. `named_by` says what gave the entry its id. Raises SchemaMissingError for a kind
    without a schema.
    """
    large = _first(oversized(entry.facts))
    if large:
        return large
    stated = chain(schemas.faults(entry.kind, entry.facts), _own_name(entry, named_by))
    found = _first(chain(stated, implausible(entry.facts)))
    return found or _first(_unreadable(entry))


def is_slug(text: str) -> bool:
    """Whether a text can be the id of an entry."""
    return _SLUG.fullmatch(text) is not None


def _first(faults: Iterable[Fault]) -> list[Fault]:
    return list(islice(faults, MOST_FAULTS))


def _own_name(entry: Entry, named_by: str) -> Iterator[Fault]:
    stated = entry.facts.get("id")
    if stated != entry.id:
        written = repr(stated[:200]) if isinstance(stated, str) else shown(stated)
        yield Fault("/id", f"is {written}, but {named_by} {entry.id[:200]!r}.")
    if not is_slug(entry.id):
        yield Fault("/id", "an id is made of small letters, digits, dots, hyphens and underscores, at most 200.")


def _unreadable(entry: Entry) -> Iterator[Fault]:
    reader = _READERS.get(entry.kind)
    try:
        if reader is not None:
            reader(entry)
    except UnknownArchitecture:
        return
    except QuoteError as error:
        yield from (fault._replace(pointer=_in_facts(fault.pointer)) for fault in error.faults)


def _in_facts(pointer: str) -> str:
    for start, instead in _POINTERS:
        if pointer == start or pointer.startswith(f"{start}/"):
            return instead + pointer.removeprefix(start)
    return pointer
