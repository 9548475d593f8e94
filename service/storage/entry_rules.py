"""What speaks against a change of one entry beside the entry itself: names that others have, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import Fault
from service.storage.catalog_diff import differences
from service.storage.listing import Listing
from service.storage.names import fold, stated_names
from service.storage.snapshot import Snapshot

_SOURCE: Final = "_source"
_MEASURED: Final = "measured"
_USERS_NAMED: Final = 3


def taken_names(catalog: Snapshot, entry: Entry) -> Iterator[Fault]:
    """The names an entry lays claim to that another entry of its kind states already: they would mean neither."""
    for name in stated_names(entry.id, entry.facts):
        owner = next((other for other in catalog.owners(entry.kind, name) if other != entry.id), None)
        if owner is not None:
            yield Fault(_place(entry, name), f"The name {name!r} already leads to {entry.kind} {owner}.", (owner,))


def measured_facts_lost(before: Mapping[str, Any], after: Mapping[str, Any], pointer: str = "") -> Iterator[Fault]:
    """The measured facts that a change would replace, drop or relabel.

    `X_source: measured` beside `X…` says that the fields whose names begin with `X_` were measured.
    """
    for name, value in before.items():
        if isinstance(value, Mapping):
            inner = after.get(name)
            yield from measured_facts_lost(value, inner if isinstance(inner, Mapping) else {}, f"{pointer}/{name}")
        elif value == _MEASURED and name.endswith(_SOURCE):
            yield from _lost(before, after, name.removesuffix("source"), pointer)


def unknown_references(catalog: Snapshot, entry: Entry) -> Iterator[Fault]:
    """The entries of other kinds that an entry names and the catalog does not have."""
    for pointer, kind, name in _references(entry):
        if catalog.by_id(kind, name) is None:
            near = catalog.ids_of(kind, name)
            yield Fault(pointer, f"The catalog has no {kind} with the id {name[:200]!r}.", near)


def users_of(catalog: Snapshot, entry: Entry) -> tuple[str, ...]:
    """Entries that name this one, at most three of a kind, as `instance aws-p5-48xlarge`."""
    used: Iterable[tuple[CatalogKind, str]] = {
        CatalogKind.GPU: ((CatalogKind.INSTANCE, "gpu"), (CatalogKind.GPU, "mig_parent")),
        CatalogKind.DTYPE: ((CatalogKind.MODEL, "weight_dtype"),),
    }.get(entry.kind, ())
    asked = [(kind, Listing(limit=_USERS_NAMED, equal={column: [entry.id]})) for kind, column in used]
    return tuple(f"{user.kind} {user.id}" for kind, listing in asked for user in catalog.page(kind, listing)[0])


def _references(entry: Entry) -> Iterator[tuple[str, CatalogKind, str]]:
    if entry.kind is CatalogKind.INSTANCE:
        yield "/gpu", CatalogKind.GPU, entry.facts["gpu"]
    if entry.kind is CatalogKind.MODEL:
        checkpoint = entry.facts["checkpoint"]
        yield "/checkpoint/dtype", CatalogKind.DTYPE, checkpoint["dtype"]
        for kind, name in (checkpoint.get("module_dtypes") or {}).items():
            yield f"/checkpoint/module_dtypes/{kind}", CatalogKind.DTYPE, name
    if entry.kind is CatalogKind.DTYPE:
        yield from _formats_named(entry)


def _formats_named(entry: Entry) -> Iterator[tuple[str, CatalogKind, str]]:
    """The other formats that a format's matrices fall back to or that a file type gives to tensors."""
    fallback, mix = (entry.facts.get("weight") or {}).get("fallback"), entry.facts.get("mix")
    found = [("/weight/fallback", fallback)] if fallback else []
    if mix:
        found += [("/mix/base", mix["base"])]
        found += [(f"/mix/rules/{i}/type", rule["type"]) for i, rule in enumerate(mix["rules"])]
    yield from ((pointer, CatalogKind.DTYPE, name) for pointer, name in found if name != entry.id)


def _lost(before: Mapping[str, Any], after: Mapping[str, Any], beginning: str, pointer: str) -> Iterator[Fault]:
    for name in before:
        if name.startswith(beginning):
            for line in differences({name: before[name]}, {name: after[name]} if name in after else {}):
                yield Fault(f"{pointer}/{name}", f"{line}. The stored one was measured.")


def _place(entry: Entry, name: str) -> str:
    aliases = [fold(alias) for alias in entry.facts.get("aliases") or ()]
    if name in aliases:
        return f"/aliases/{aliases.index(name)}"
    return "/id" if name == fold(entry.id) else "/hub_id"
