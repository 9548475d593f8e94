"""Steps and prefills against published times: of all rows together, of each source, and of rows with several ranks."""

import pytest

from tests.domain.conftest import CATALOG, Ask
from tests.performance import Rows, held, middle, near, published, quoted, sources


@pytest.fixture(scope="module")
def steps(ask_traffic: Ask) -> Rows:
    return quoted(ask_traffic, published("times"), "step")


@pytest.fixture(scope="module")
def prefills(ask_traffic: Ask) -> Rows:
    return quoted(ask_traffic, published("times"), "prefill")


@pytest.fixture(scope="module")
def steps_of_experts(ask_traffic: Ask) -> Rows:
    return quoted(ask_traffic, published("expert_times"), "step")


def test_every_engine_of_the_rows_has_its_times_in_the_catalog() -> None:
    names = {row["question"]["engine"] for row in published("times")}
    assert all((CATALOG / "engines" / f"{name}.yaml").exists() for name in names)


def test_steps_are_near_what_was_published(steps: Rows) -> None:
    assert middle(steps) < 0.09
    assert near(steps) >= 0.88


def test_steps_of_several_ranks_are_near_what_was_published(steps: Rows) -> None:
    assert middle([one for one in steps if one.row["question"].get("tensor_parallel", 1) > 1]) < 0.15


def test_no_source_alone_carries_the_steps(steps: Rows) -> None:
    for left_out in sources(steps).values():
        assert middle([one for one in steps if one not in left_out]) < 0.09


def test_intervals_of_steps_hold_what_was_published(steps: Rows) -> None:
    assert held(steps) >= 0.85


def test_prefills_are_near_what_was_published(prefills: Rows) -> None:
    assert middle(prefills) < 0.14
    assert near(prefills) >= 0.75


def test_intervals_of_prefills_hold_what_was_published(prefills: Rows) -> None:
    assert held(prefills) >= 0.85


def test_steps_of_experts_are_as_near_as_the_readme_says(steps_of_experts: Rows) -> None:
    """Nothing was chosen with these rows in view: most are longer than quoted."""
    assert middle(steps_of_experts) < 0.20
    assert held(steps_of_experts) >= 0.80
