"""Figures that were worked out by hand from the engines' own code are quoted as they are."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Shelf

ROWS = yaml.safe_load((Path(__file__).parents[2] / "data" / "engines_by_hand.yaml").read_text())
SHARE = 1e-4


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_a_figure_is_what_the_engine_makes_of_it(row: dict[str, Any], shelf: Shelf) -> None:
    answer = fit(resolve(row["question"], shelf), shelf)
    ((name, value),) = row["figure"].items()
    quoted = answer[name] if name in answer else answer["question"][name]
    assert quoted == pytest.approx(value, rel=SHARE), row["working"]


def test_every_row_has_a_name_of_its_own() -> None:
    assert len({row["id"] for row in ROWS}) == len(ROWS) >= 100
