"""What loading files would change in the stored catalog, and what it leaves alone because others changed it since."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Final

from sqlalchemy import Connection

from service.domain.catalog import Entry
from service.storage.canonical import compact_json, facts_digest
from service.storage.catalog import (
    Change,
    EntryState,
    Key,
    entry_states,
    keys_deleted_by_others,
    keys_ever_from,
    read_facts,
)

_LONGEST_VALUE: Final = 60
_NOTHING: Final = object()
_UNREADABLE: Final = "(unreadable)"


@dataclass(frozen=True, slots=True)
class LoadPlan:
    """Keys by what is to become of them; `kept` are those that the files differ from, and others changed last.

    `conflict_lines` say of a kept entry, field by field, what is stored and what the files would make of it.
    """

    created: tuple[Key, ...]
    changed: tuple[Key, ...]
    deleted: tuple[Key, ...]
    unchanged: tuple[Key, ...]
    kept: tuple[tuple[Key, str], ...]
    lines: tuple[str, ...]
    conflict_lines: Mapping[Key, tuple[str, ...]]
    changes: tuple[Change, ...]


def plan_load(connection: Connection, entries: Sequence[Entry], origin: str, *, overwrite: bool = False) -> LoadPlan:
    """Compare files with the stored catalog.

    An entry whose last change came from another origin than `origin` is kept, also where the files lack it, and where
    that change was its deletion; with `overwrite` it becomes what the files say. What files never held is none of
    their business.
    """
    files = {(entry.kind, entry.id): entry for entry in entries}
    states = entry_states(connection)
    # Nobody is known to have changed what has no origin any more: what the files hold of that is theirs.
    ours = {key for key, state in states.items() if state.origin == origin or (state.origin is None and key in files)}
    gone = keys_deleted_by_others(connection, origin, files.keys() - states.keys())
    lost = keys_ever_from(connection, origin, states.keys() - files.keys() - ours)
    if overwrite:
        ours, gone, lost = ours | files.keys() | lost, set(), set()
    shared = {key: facts_digest(entry.facts) == states[key].digest for key, entry in files.items() if key in states}
    foreign = {key: states[key] for key, same in shared.items() if not same and key not in ours}
    created = tuple(key for key in files if key not in states and key not in gone)
    changed = tuple(key for key, same in shared.items() if not same and key in ours)
    deleted = tuple(key for key in states if key in ours and key not in files)
    stored = read_facts(connection, (*changed, *foreign))
    return LoadPlan(
        created=created,
        changed=changed,
        deleted=deleted,
        unchanged=tuple(key for key, same in shared.items() if same),
        kept=tuple(_kept(gone, foreign, {key: states[key] for key in lost})),
        lines=tuple(_lines(created, changed, deleted, files, stored)),
        conflict_lines={key: tuple(differences(stored[key], files[key].facts)) for key in foreign},
        changes=tuple(_changes((*created, *changed), deleted, files)),
    )


def differences(before: object, after: object, path: str = "") -> Iterator[str]:
    """One line for each field in which two documents differ, `field: old -> new`, in the order of the new one."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in [*after, *(name for name in before if name not in after)]:
            field = f"{path}.{name}" if path else name
            yield from differences(before.get(name, _NOTHING), after.get(name, _NOTHING), field)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{index}]")
    elif type(before) is not type(after) or before != after:
        yield f"{path}: {_shown(before)} -> {_shown(after)}"


def _kept(
    gone: Iterable[Key], foreign: Mapping[Key, EntryState], lost: Mapping[Key, EntryState]
) -> Iterator[tuple[Key, str]]:
    """What the files differ from and others changed last: deleted by them, changed by them, or missing in the files."""
    for key in sorted(gone):
        yield key, "deleted since, not created again"
    for key, state in foreign.items():
        yield key, f"changed by {state.origin or _UNREADABLE} in revision {state.revision}"
    for key, state in sorted(lost.items(), key=itemgetter(0)):
        yield key, f"not in the files, but changed by {state.origin or _UNREADABLE} in revision {state.revision}"


def _changes(written: Iterable[Key], deleted: Iterable[Key], files: Mapping[Key, Entry]) -> Iterator[Change]:
    for kind, entry_id in written:
        yield Change(kind, entry_id, files[kind, entry_id].facts)
    for kind, entry_id in deleted:
        yield Change(kind, entry_id, None)


def _lines(
    created: Iterable[Key],
    changed: Iterable[Key],
    deleted: Iterable[Key],
    files: Mapping[Key, Entry],
    stored: Mapping[Key, Any],
) -> Iterator[str]:
    for kind, entry_id in created:
        yield f"+ {kind} {entry_id}"
    for key in changed:
        yield f"~ {key[0]} {key[1]}"
        found = list(differences(stored[key], files[key].facts))
        yield from (f"    {line}" for line in found or ["written anew: the row is damaged, its facts are the same"])
    for kind, entry_id in deleted:
        yield f"- {kind} {entry_id}"


def _shown(value: object) -> str:
    if value is _NOTHING:
        return "(none)"
    text = compact_json(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"
