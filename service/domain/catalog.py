"""A catalog entry as the database keeps it: facts under a kind and an id, with the revision they last changed in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum, unique
from typing import Any


@unique
class CatalogKind(StrEnum):
    """What the catalog holds."""

    MODEL = "model"
    GPU = "gpu"
    INSTANCE = "instance"
    DTYPE = "dtype"
    ENGINE = "engine"


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: its facts are the parsed document of `catalog/<kind>s/<id>.yaml` or of an API write."""

    kind: CatalogKind
    id: str
    facts: Mapping[str, Any]
    revision: int
