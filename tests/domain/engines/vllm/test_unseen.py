"""Logs that came after the rules hold their tolerance; those that do not are known, with the reason beside them."""

import statistics

import pytest

from tests.domain.conftest import Shelf
from tests.evidence.starts import CACHE, OF_THE_CACHE, WEIGHTS, Start, errors, lines, rows, start_of

ROWS = rows()


@pytest.fixture(scope="module")
def starts(shelf: Shelf) -> list[Start]:
    return [start_of(row, shelf) for row in ROWS]


def test_exactly_those_starts_are_outside_that_say_why(starts: list[Start]) -> None:
    assert [start.id for start in starts if not start.within] == [row["id"] for row in ROWS if "outside" in row]


def test_every_start_names_its_source_and_has_a_cache() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 94
    assert all(row["source"] and row["figures"][f"{CACHE}_gib"] > 0 for row in ROWS)
    assert all(set(row.get("inferred", ())) <= set(row["question"]) for row in ROWS)


@pytest.mark.parametrize("name, most", [(WEIGHTS, 0.005), *((name, 0.015) for name in OF_THE_CACHE)])
def test_half_of_the_starts_that_say_all_are_close(starts: list[Start], name: str, most: float) -> None:
    assert statistics.median(errors([start for start in starts if start.outside is None], name)) < most


def test_the_table_has_a_line_for_each_figure(starts: list[Start]) -> None:
    found = list(lines(starts))
    assert len(found) == 1 + sum(len(start.figures) for start in starts) + 3 * 5
    assert sum(line.endswith("outside") for line in found) == sum(
        figure.within is False for start in starts for figure in start.figures
    )
