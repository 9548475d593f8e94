"""What each engine keeps for itself and how it counts: policy from the catalog, one module for each engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.engines import plain
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from service.domain.catalog import Entry
    from service.domain.engines.plain import PlainEngine

_READERS = {"none": plain.from_facts}


def from_facts(entry: Entry) -> PlainEngine:
    """Read a catalog entry of kind `engine`; raises CatalogFactError for an engine without a module."""
    reader = _READERS.get(entry.id)
    if reader is None:
        raise CatalogFactError.at("/id", f"There is no module for the engine {entry.id}.")
    return reader(entry)
