"""The catalog's files as these tests read them: once, by the reader that the service loads them with."""

import re
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

from service.domain.catalog import CatalogKind
from service.storage.canonical import compact_json
from service.storage.catalog import CatalogDelta, StoredEntry
from service.storage.catalog_yaml import read_yaml
from service.storage.snapshot import Snapshot

CATALOG = Path(__file__).resolve().parents[2] / "catalog"
HERE = Path(__file__).resolve().parent
KINDS = ("gpu", "model", "instance", "dtype")
GIB = 1 << 30

Facts: TypeAlias = dict[str, Any]


def paths(kind: str) -> list[Path]:
    return sorted((CATALOG / f"{kind}s").glob("*.yaml"))


@cache
def entries(kind: str) -> dict[str, Facts]:
    """All entries of a kind by file name; never change them."""
    return {path.stem: read_yaml(path) for path in paths(kind)}


def ids(kind: str) -> list[str]:
    return [path.stem for path in paths(kind)]


def cards() -> dict[str, Facts]:
    """Whole devices, without MIG slices."""
    return {name: gpu for name, gpu in entries("gpu").items() if not isinstance(gpu["mig"], dict)}


def slices() -> dict[str, Facts]:
    return {name: gpu for name, gpu in entries("gpu").items() if isinstance(gpu["mig"], dict)}


def slug(hub_id: str) -> str:
    """The contract's rule: the last part of the hub id in lower case, without a trailing -hf."""
    return re.sub(r"-hf$", "", hub_id.rpartition("/")[2].lower())


def names(facts: Facts) -> set[str]:
    """Every name that leads to an entry, without case: of hub ids also the slug."""
    stated = {facts["id"], *facts.get("aliases", ())} | ({facts["hub_id"]} if "hub_id" in facts else set())
    return {name.casefold() for name in stated} | {slug(name) for name in stated if "/" in name}


def near(value: float, wanted: float, tolerance: float = 0.03) -> bool:
    return abs(value - wanted) <= tolerance * wanted


@cache
def snapshot() -> Snapshot:
    """The whole catalog as the service answers from it, with its own index of names."""
    stored = tuple(
        StoredEntry(CatalogKind(kind), name, compact_json(facts).encode(), 1)
        for kind in KINDS
        for name, facts in entries(kind).items()
    )
    return Snapshot.empty().advanced(CatalogDelta(1, stored, ()))
