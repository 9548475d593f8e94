"""A model taken into the catalog from files at hand: its config, and the headers of what holds its weights.

Of the weights' files no more than the header is read, however long they are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import Fault, ValidationError
from service.domain.files import MOST_HEADER_BYTES, Tensor, read_gguf, read_safetensors, read_safetensors_json
from service.domain.files.index import read_index
from service.domain.files.safetensors import LENGTH_BYTES, header_length
from service.domain.importing import Checkpoint, Naming
from service.storage import audit
from service.storage.canonical import facts_digest, whole_numbers
from service.storage.catalog import Change, apply_changes, lock_catalog, read_entries
from service.storage.catalog_schema import CatalogSchemas
from service.storage.database import reading, writing
from service.storage.entry_checks import entry_faults
from service.storage.entry_rules import taken_names, unknown_references
from service.storage.snapshot import Snapshot

COMMAND_ORIGIN: Final = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelFiles:
    """Where the files are; at most one of index, headers and gguf is given."""

    config: Path
    index: Path | None = None
    headers: tuple[Path, ...] = ()
    gguf: Path | None = None


def read_model(database: Engine, files: ModelFiles, naming: Naming) -> dict[str, Any]:
    """The facts of the entry that the files make; raises QuoteError at the file and field that cannot be."""
    with reading(database) as connection:
        catalog = Snapshot.empty().advanced(read_entries(connection))
    checkpoint = Checkpoint(_config(files.config), catalog)
    if files.index is not None:
        pointer = _pointer(files.index)
        checkpoint.set_index(read_index(_start(files.index), checkpoint.layers, pointer), pointer)
    for path in files.headers:
        checkpoint.add_tensors(_tensors(path), _pointer(path))
    if files.gguf is not None:
        with files.gguf.open("rb") as stream:
            header, tensors = read_gguf(stream.read, _pointer(files.gguf))
            checkpoint.add_tensors(tensors, _pointer(files.gguf), header.file_type)
    facts: dict[str, Any] = whole_numbers(checkpoint.facts(naming))
    return facts


def store_model(
    database: Engine, facts: dict[str, Any], author: str, schemas: CatalogSchemas, *, replace: bool
) -> int | None:
    """Write the entry as a revision of its own, None where it is there already and says the same.

    Raises ValidationError for facts that no entry may have, a name that is taken, or an entry there is already unless
    it may be replaced.
    """
    entry = Entry(CatalogKind.MODEL, facts["id"], facts, 0)
    _refuse(entry_faults(entry, schemas, "the hub id makes it"))
    with writing(database) as connection:
        lock_catalog(connection)
        catalog = Snapshot.empty().changed(read_entries(connection))
        _refuse(taken_names(catalog, entry))
        _refuse(unknown_references(catalog, entry))
        if catalog.by_id(entry.kind, entry.id) is not None and not replace:
            raise ValidationError(Fault("", f"The catalog has a model {entry.id} already; --replace takes its place."))
        summary = f"imported model {entry.id}"
        revision = apply_changes(connection, [Change(entry.kind, entry.id, facts)], author, COMMAND_ORIGIN, summary)
        if revision is not None:
            digest = facts_digest(facts)
            subject = f"{entry.kind}/{entry.id}"
            event = audit.Event(author, "catalog.imported", subject, revision, after_digest=digest, note=summary)
            audit.record(connection, event)
        return revision


def today() -> str:
    """The day, as entries say when they were checked."""
    return f"{datetime.now(UTC):%Y-%m-%d}"


def _refuse(faults: Iterable[Fault]) -> None:
    found = tuple(faults)
    if found:
        raise ValidationError(*found)


def _config(path: Path) -> dict[str, Any]:
    try:
        config = json.loads(_start(path))
    except (ValueError, RecursionError) as error:
        raise ValidationError(Fault(_pointer(path), f"It is no JSON: {error}.")) from error
    if not isinstance(config, dict):
        raise ValidationError(Fault(_pointer(path), "A config is a JSON object."))
    return config


def _start(path: Path) -> bytes:
    """All of a short file, and of a long one as much as shows that it is too long."""
    with path.open("rb") as stream:
        return stream.read(MOST_HEADER_BYTES + 1)


def _tensors(path: Path) -> Iterator[Tensor]:
    """Those of a safetensors file, of which no data is read; a file of the header's JSON alone is taken too."""
    pointer = _pointer(path)
    with path.open("rb") as stream:
        start = stream.read(LENGTH_BYTES)
        if start[:1] == b"{":
            return read_safetensors_json(start + stream.read(MOST_HEADER_BYTES), pointer)
        return read_safetensors(start + stream.read(header_length(start, pointer)), pointer)


def _pointer(path: Path) -> str:
    """A file stands for itself where the wire has a field."""
    return path.name
