"""Domain values made from catalog entries, kept by entry and revision."""

from __future__ import annotations

import json
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, TypeVar

from service.domain.catalog import Entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.domain.catalog import CatalogKind
    from service.storage.catalog import StoredEntry

VALUES_KEPT: Final = 1024
"""Bound of what a worker keeps beside the entries themselves."""

Value = TypeVar("Value")


class ValueCache:
    """Domain values by entry and revision, the longest unused dropped first; one for all snapshots of a process.

    A refresh changes a few entries: the values of the others, and what they remember of their shapes, live on.
    """

    __slots__ = ("_kept", "_lock", "_values")

    def __init__(self, kept: int = VALUES_KEPT) -> None:
        self._kept = kept
        self._lock = Lock()
        self._values: dict[tuple[CatalogKind, str, int], Any] = {}

    def get(self, entry: StoredEntry, build: Callable[[Entry], Value]) -> Value:
        """The value of an entry, built where it is not at hand; what `build` raises is not kept."""
        key = (entry.kind, entry.id, entry.revision)
        with self._lock:
            value = self._values.pop(key, None)
            if value is not None:
                self._values[key] = value
                return value  # type: ignore[no-any-return]  # one kind, one builder
        return self._keep(key, build(parsed(entry)))

    def _keep(self, key: tuple[CatalogKind, str, int], value: Value) -> Value:
        with self._lock:
            self._values[key] = value
            if len(self._values) > self._kept:
                del self._values[next(iter(self._values))]
        return value


def parsed(entry: StoredEntry) -> Entry:
    """The entry with its facts read from JSON."""
    return Entry(entry.kind, entry.id, json.loads(entry.facts_json), entry.revision)
