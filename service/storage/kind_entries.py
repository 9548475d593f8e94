"""The entries of one kind at one revision: by id, by every name that leads to them, and by what lists filter."""

from __future__ import annotations

import json
import logging
import re
from typing import Any, Final

from service.domain.catalog import CatalogKind
from service.domain.catalog_rows import filter_values
from service.storage.canonical import checked_json
from service.storage.catalog import CatalogDelta, StoredEntry
from service.storage.kindred import KindredNames, NameReader, Reading
from service.storage.names import NameIndex, NearestNames, fold, stated_names

_logger: Final = logging.getLogger(__name__)

_SIZE: Final = re.compile(r"[ _-]\d{1,4} ?gb", re.ASCII)


class KindEntries:
    """Entries of one kind at one revision; never changed once a snapshot holds it."""

    __slots__ = ("entries", "ids", "kindred", "names", "nearest", "rows")

    def __init__(self, other: KindEntries | None = None) -> None:
        """Begin empty, or with what another one holds."""
        self.entries: dict[str, StoredEntry] = dict(other.entries) if other else {}
        self.rows: dict[str, tuple[Any, ...]] = dict(other.rows) if other else {}
        self.names: NameIndex = other.names.copy() if other else NameIndex()
        self.nearest: NearestNames | None = other.nearest if other else None
        self.kindred: KindredNames | None = other.kindred if other else None
        self.ids: tuple[str, ...] | None = None

    def put(self, entry: StoredEntry) -> None:
        """Hold an entry, in the place of one of its id; one that cannot be read is left out, with a warning."""
        self.drop(entry.id)
        try:
            # All of the catalog passes here before the first answer, which waits 3 ms for this and 10 for `json`.
            facts = checked_json(entry.facts_json)
            row = filter_values(entry.kind, facts)
            self.names.add(entry.id, facts)
        except Exception as error:  # noqa: BLE001  # whatever was written past the checks must not hide all others
            _logger.warning("catalog entry left out: %s %s (%s: %s)", entry.kind, entry.id, type(error).__name__, error)
            return
        self.entries[entry.id], self.rows[entry.id] = entry, row

    def drop(self, entry_id: str) -> None:
        """Hold an entry no longer."""
        old = self.entries.pop(entry_id, None)
        if old is not None:
            self.names.remove(entry_id, json.loads(old.facts_json))
            del self.rows[entry_id]

    def find(self, name: str) -> tuple[str, ...]:
        """The ids that a name leads to."""
        folded = fold(name)
        return (folded,) if folded in self.entries else self.names.find(folded)

    def sized(self, name: str) -> tuple[str, ...]:
        """The ids that a name leads to with a size of memory behind it, such as those of `RTX 3080 12GB`."""
        folded = fold(name).rstrip()
        longer = (other for other in (*self.entries, *self.names) if other.startswith(folded))
        named = {other for other in longer if _SIZE.fullmatch(other, len(folded))}
        return tuple(sorted({entry_id for other in named for entry_id in self.find(other)}))

    def only(self, name: str) -> str | None:
        """The id that a name leads to where it is one alone."""
        found = self.find(name)
        return found[0] if len(found) == 1 else None

    def containing(self, folded: str) -> set[str]:
        """The ids of entries of which a name holds the text."""
        return {entry_id for entry_id in self.entries if folded in entry_id} | self.names.containing(folded)

    def index(self) -> NearestNames:
        """The names to suggest from, gathered when first needed."""
        if self.nearest is None:
            self.nearest = NearestNames([*self.entries, *(name for name in self.names if "/" not in name)])
        return self.nearest

    def read(self, folded: str) -> Reading | None:
        """Where a name leads that may be a derivative's; None where nothing explains it."""
        if self.kindred is None:
            self.kindred = KindredNames([*self.entries, *self.names])
        return NameReader(self.kindred, self.find, lambda i: json.loads(self.entries[i].facts_json)).read(folded)


def changed_entries(old: KindEntries, kind: CatalogKind, delta: CatalogDelta) -> KindEntries:
    """The entries with a delta on top."""
    new = KindEntries(old)
    for gone in delta.deleted:
        if gone[0] == kind:
            new.drop(gone[1])
    for entry in delta.entries:
        if entry.kind == kind:
            new.put(entry)
    return new


def suggest_names(old: KindEntries, new: KindEntries, entry: StoredEntry) -> None:
    """Take the names that an entry brought into the indexes that snapshots share."""
    indexes = [index for index in (new.nearest, new.kindred) if index is not None]
    held = entry.id in new.entries
    names = stated_names(entry.id, json.loads(entry.facts_json)) if indexes and held else []
    for name in names:
        if not old.find(name) and new.find(name):
            for index in indexes:
                index.add(name)
