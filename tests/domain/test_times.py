"""Steps and prefills against published times: of all rows together, of each source, and of rows with several ranks."""

from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pytest
import yaml

from tests.domain.conftest import CATALOG, Ask

MEMORY_BYTES = 10_000_000_000_000
"""Enough for every row: what fits is not asked here."""
ROWS = yaml.safe_load((Path(__file__).parents[1] / "data" / "times.yaml").read_text())
QUOTED = ("none", "vllm", "llama.cpp")


class Quoted(NamedTuple):
    row: dict[str, Any]
    error: float
    held: bool


Rows = list[Quoted]


@pytest.fixture(scope="module")
def steps(ask_traffic: Ask) -> Rows:
    return quoted(ask_traffic, "step")


@pytest.fixture(scope="module")
def prefills(ask_traffic: Ask) -> Rows:
    return quoted(ask_traffic, "prefill")


def quoted(ask: Ask, part: str) -> Rows:
    rows = [row for row in ROWS if f"{part}_seconds" in row and row["question"]["engine"] in QUOTED]
    return [against(row, ask(memory_bytes=MEMORY_BYTES, **row["question"])[part], part) for row in rows]


def against(row: dict[str, Any], answer: dict[str, Any], part: str) -> Quoted:
    seconds = row[f"{part}_seconds"]
    low, high = answer["interval_seconds"]
    return Quoted(row, abs(answer["seconds"] / seconds - 1), low <= seconds <= high)


def share(rows: Rows, of: Callable[[Quoted], bool]) -> float:
    return sum(map(of, rows)) / len(rows)


def by_source(rows: Rows) -> list[Rows]:
    ordered = sorted(rows, key=lambda one: one.row["source"])
    return [list(group) for _, group in groupby(ordered, key=lambda one: one.row["source"])]


def test_every_engine_of_the_rows_has_its_times_in_the_catalog() -> None:
    assert all((CATALOG / "engines" / f"{name}.yaml").exists() for name in QUOTED)


def test_steps_are_near_what_was_published(steps: Rows) -> None:
    assert median(one.error for one in steps) < 0.09
    assert share(steps, lambda one: one.error <= 0.25) >= 0.88


def test_steps_of_several_ranks_are_near_what_was_published(steps: Rows) -> None:
    assert median(one.error for one in steps if one.row["question"].get("tensor_parallel", 1) > 1) < 0.15


def test_no_source_alone_carries_the_steps(steps: Rows) -> None:
    for left_out in by_source(steps):
        assert median(one.error for one in steps if one not in left_out) < 0.09


def test_intervals_of_steps_hold_what_was_published(steps: Rows) -> None:
    assert share(steps, lambda one: one.held) >= 0.85


def test_prefills_are_near_what_was_published(prefills: Rows) -> None:
    assert median(one.error for one in prefills) < 0.14
    assert share(prefills, lambda one: one.error <= 0.25) >= 0.75


def test_intervals_of_prefills_hold_what_was_published(prefills: Rows) -> None:
    assert share(prefills, lambda one: one.held) >= 0.85
