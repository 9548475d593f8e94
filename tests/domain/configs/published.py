"""The published models of `tests/data/configs`: one file for each family, its configs cut to what decides capacity."""

from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

DATA = Path(__file__).parents[2] / "data" / "configs"


@dataclass(frozen=True)
class Published:
    """A config and what is true of it; `cache_bytes` are all caches of one sequence in 16 bits, by its length.

    `state_bytes` is the part of them that is recurrent state, in types of its own.
    """

    model: str
    source: str
    config: dict[str, Any]
    parameters: int
    cache_bytes: dict[int, int]
    active_parameters: int | None = None
    prediction_parameters: int = 0
    state_bytes: int = 0


@cache
def published_models() -> tuple[Published, ...]:
    """All of them, by family and name."""
    files = sorted(DATA.glob("*.yaml"))
    return tuple(Published(**entry) for file in files for entry in yaml.safe_load(file.read_text(encoding="utf-8")))


def named(model: str) -> dict[str, Any]:
    """A copy of one model's config, to change in a test."""
    return next(dict(entry.config) for entry in published_models() if entry.model == model)
