"""The catalog's files: read, checked in every way at once, and loaded into the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from sqlalchemy import Engine

from service.domain import model
from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import Fault, UnknownArchitecture
from service.storage import audit
from service.storage.canonical import checked_json, compact_json, whole_numbers
from service.storage.catalog import apply_changes, current_revision, lock_catalog
from service.storage.catalog_diff import LoadPlan, plan_load
from service.storage.catalog_schema import CatalogSchemas, SchemaMissingError
from service.storage.catalog_yaml import CatalogYamlError, read_yaml
from service.storage.database import reading, writing
from service.storage.entry_checks import entry_faults
from service.storage.names import stated_names

FILES_ORIGIN: Final = "files"

_FOLDERS: Final = {kind: f"{kind}s" for kind in CatalogKind}
_FLAGS: Final = "flags"
"""The folder, beside the files of engines, of what their flags mean: more rows than all their other rules."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a catalog file: which, where in it (a JSON pointer, "" for the whole), and what."""

    file: str
    pointer: str
    detail: str

    def __str__(self) -> str:
        return f"{self.file}{f' at {self.pointer}' if self.pointer else ''}: {self.detail}"


class CatalogFilesError(ValueError):
    """Files that cannot be loaded, with every problem found in them."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True, slots=True)
class WaitingModel:
    """A model that is in the catalog, but cannot be quoted before a reader knows its architecture."""

    id: str
    architecture: str


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a load did, or would do: `revision` is the catalog's afterwards, `lines` say it field by field.

    `conflicts` name the entries that were kept; `conflict_lines` say the same with the fields that the files would
    change, `field: stored -> file`.
    """

    revision: int
    created: int
    changed: int
    deleted: int
    unchanged: int
    lines: tuple[str, ...]
    conflicts: tuple[str, ...]
    conflict_lines: tuple[str, ...]
    waiting: tuple[WaitingModel, ...]


def read_catalog_files(folder: Path) -> list[Entry]:
    """Every entry of a catalog folder, checked by schema, by name and by conversion to what it describes.

    Raises CatalogFilesError with all problems. A model whose architecture no reader knows is no problem, see
    `waiting_for_reader`. Entries carry revision 0, since only the database knows theirs.
    """
    schemas = CatalogSchemas(folder / "schema")
    problems = list(_misplaced(folder))
    entries: dict[str, Entry] = {}
    for kind, path in _files(folder):
        name = f"{path.parent.name}/{path.name}"
        facts, found = _read(kind, path, schemas)
        problems += [Problem(name, fault.pointer, fault.detail) for fault in found]
        if facts is not None and not found:
            entries[name] = Entry(kind, path.stem, facts, 0)
    problems += _shared_names(entries)
    if not entries and not problems:
        problems.append(Problem(str(folder), "", "holds no catalog entries."))
    if problems:
        raise CatalogFilesError(problems)
    return list(entries.values())


def waiting_for_reader(entries: Iterable[Entry]) -> Iterator[WaitingModel]:
    """The models among the entries whose architecture no reader knows."""
    for entry in entries:
        if entry.kind is CatalogKind.MODEL:
            try:
                model.from_facts(entry)
            except UnknownArchitecture:
                yield WaitingModel(entry.id, str(entry.facts["config"].get("model_type")))


def load(database: Engine, folder: Path, author: str, *, dry_run: bool = False, overwrite: bool = False) -> LoadReport:
    """Bring the stored catalog to what the files say, as one revision, or say what that would change.

    Loading the same files again changes nothing. Entries of other origins are kept, and listed as conflicts with what
    the files say otherwise; with `overwrite` the files win. Raises CatalogFilesError before anything is written.
    """
    entries = read_catalog_files(folder)
    waiting = tuple(waiting_for_reader(entries))
    with reading(database) if dry_run else writing(database) as connection:
        if not dry_run:
            lock_catalog(connection)
        plan = plan_load(connection, entries, FILES_ORIGIN, overwrite=overwrite)
        if not dry_run:
            revision = apply_changes(connection, plan.changes, author, FILES_ORIGIN, _summary(plan))
            if revision is not None:
                audit.record(
                    connection, audit.Event(author, "catalog.loaded", "catalog", revision, note=_summary(plan))
                )
        return _report(plan, current_revision(connection), waiting)


def _report(plan: LoadPlan, revision: int, waiting: tuple[WaitingModel, ...]) -> LoadReport:
    conflicts = {key: f"{key[0]} {key[1]}: {reason}" for key, reason in plan.kept}
    return LoadReport(
        revision=revision,
        created=len(plan.created),
        changed=len(plan.changed),
        deleted=len(plan.deleted),
        unchanged=len(plan.unchanged),
        lines=plan.lines,
        conflicts=tuple(conflicts.values()),
        conflict_lines=tuple(
            line
            for key, conflict in conflicts.items()
            for line in (conflict, *(f"    {field}" for field in plan.conflict_lines.get(key, ())))
        ),
        waiting=waiting,
    )


def _summary(plan: LoadPlan) -> str:
    return f"{len(plan.created)} created, {len(plan.changed)} changed, {len(plan.deleted)} deleted"


def _files(folder: Path) -> Iterator[tuple[CatalogKind, Path]]:
    for kind, name in _FOLDERS.items():
        for path in sorted((folder / name).glob("*.yaml")):
            yield kind, path


def _misplaced(folder: Path) -> Iterator[Problem]:
    """Files that would be passed over without a word."""
    for path in sorted(folder.rglob("*.y*ml")):
        if _is_of_flags(path):
            continue
        if path.parent.parent != folder or path.parent.name not in _FOLDERS.values() or path.suffix != ".yaml":
            yield Problem(
                str(path.relative_to(folder)), "", f"belongs to no kind: use {', '.join(_FOLDERS.values())}/*.yaml."
            )


def _is_of_flags(path: Path) -> bool:
    """Whether a file holds the flags of an engine that has a file."""
    of_engine = path.parent.parent / path.name
    return path.parent.name == _FLAGS and of_engine.parent.name == _FOLDERS[CatalogKind.ENGINE] and of_engine.exists()


def _read(kind: CatalogKind, path: Path, schemas: CatalogSchemas) -> tuple[dict[str, Any] | None, list[Fault]]:
    flags = path.parent / _FLAGS / path.name
    try:
        facts = read_yaml(path)
        if kind is CatalogKind.ENGINE and flags.exists():
            facts["flags"] = read_yaml(flags)
        facts = whole_numbers(facts)
        # As the database would be asked for it.
        checked_json(compact_json(facts).encode())
        return facts, entry_faults(Entry(kind, path.stem, facts, 0), schemas)
    except RecursionError:
        return None, [Fault("", "is nested too deeply")]
    except (CatalogYamlError, SchemaMissingError, ValueError) as error:
        return None, [Fault("", str(error))]


def _shared_names(entries: Mapping[str, Entry]) -> Iterator[Problem]:
    """Names that lead to two entries of a kind."""
    owners: defaultdict[tuple[CatalogKind, str], list[str]] = defaultdict(list)
    for file, entry in entries.items():
        for name in stated_names(entry.id, dict(entry.facts)):
            owners[entry.kind, name].append(file)
    for (_, name), files in owners.items():
        for file in files[1:]:
            yield Problem(file, "/aliases", f"the name {name!r} already leads to {files[0]}.")
