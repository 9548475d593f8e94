"""The command lines of tests/data/commands, and the part of the catalog that they name."""

import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from service.domain.catalog import CatalogKind
from service.storage.canonical import compact_json
from service.storage.catalog import CatalogDelta, StoredEntry
from service.storage.catalog_yaml import read_yaml
from service.storage.snapshot import Snapshot

ROOT = Path(__file__).parents[3]
CATALOG = ROOT / "catalog"
MODELS = (
    *("qwen3-8b", "qwen3-0.6b", "qwen3-30b-a3b", "llama-3.1-8b-instruct", "deepseek-v3", "gpt-oss-20b"),
    *("qwen2.5-7b-instruct", "qwen2.5-vl-7b-instruct"),
)
GPUS = ("h100-sxm-80gb", "h200-sxm-141gb", "rtx-4090", "rtx-3060-12gb")


class Case(NamedTuple):
    """One command with what is understood of it, or refused."""

    name: str
    command: str
    beside: dict[str, Any]
    row: dict[str, Any]

    @property
    def asked(self) -> dict[str, Any]:
        return {**self.named, "command": self.command}

    @property
    def named(self) -> dict[str, Any]:
        """What stands beside the command: a card unless it lists several."""
        return {**({} if "gpus" in self.beside else {"gpu": "h200-sxm-141gb"}), **self.beside}


def cases() -> Iterator[Case]:
    for path in sorted((ROOT / "tests/data/commands").glob("*.yaml")):
        for row in yaml.load(path.read_bytes(), yaml.CSafeLoader):
            command = row["command"] if isinstance(row["command"], str) else shlex.join(row["command"])
            yield Case(f"{path.stem}: {row['name']}", command, row.get("beside", {}), row)


@cache
def catalog() -> Snapshot:
    """The models and devices of the cases, every number format and every engine."""
    names = {
        CatalogKind.MODEL: MODELS,
        CatalogKind.GPU: GPUS,
        CatalogKind.DTYPE: ids(CatalogKind.DTYPE),
        CatalogKind.ENGINE: ids(CatalogKind.ENGINE),
    }
    stored = tuple(
        StoredEntry(kind, name, compact_json(facts(kind, name)).encode(), 1) for kind in names for name in names[kind]
    )
    return Snapshot.empty().advanced(CatalogDelta(1, stored, ()))


def ids(kind: CatalogKind) -> tuple[str, ...]:
    return tuple(path.stem for path in sorted((CATALOG / f"{kind}s").glob("*.yaml")))


def facts(kind: CatalogKind, name: str) -> dict[str, Any]:
    found = read_yaml(CATALOG / f"{kind}s" / f"{name}.yaml")
    flags = CATALOG / "engines/flags" / f"{name}.yaml"
    return found | {"flags": read_yaml(flags)} if kind is CatalogKind.ENGINE and flags.exists() else found
