"""Learning helps, or leaves alone: a quick part of `python -m tests.learning`."""

import pytest

from tests.learning.folds import OUTDATED, Outcome, is_proof, left_out_by, public_logs, simulated_fleet
from tests.learning.replay import Start, starts


@pytest.fixture(scope="module")
def public() -> list[Outcome]:
    return list(public_logs(probes=["a source"]))


@pytest.fixture(scope="module")
def of_fleet() -> list[Outcome]:
    return list(simulated_fleet())


def test_no_fold_over_public_logs_gets_worse(public: list[Outcome]) -> None:
    assert all(map(is_proof, public))
    assert {outcome.left_out for outcome in public} == {"a GPU and release", "a source", "a model"}


def test_a_study_of_one_source_speaks_for_no_other(public: list[Outcome]) -> None:
    by_source = next(o for o in public if (o.left_out, o.probe) == ("a source", "a source"))

    assert not by_source.moved


def test_a_catalog_that_knows_no_newer_release_is_put_right_by_logs_of_other_models() -> None:
    every = starts(probe_of_each_log=True, newest_known=OUTDATED)
    outcome = Outcome("", "", "", left_out_by(every, _family))

    assert len(outcome.moved) > len(every) / 2
    for share, least_gain in ((0.5, 3), (0.9, 1.3)):
        before, after = outcome.errors(share)
        assert after * least_gain < before


def test_a_fleet_with_three_wrong_nodes_foretells_the_others(of_fleet: list[Outcome]) -> None:
    for outcome in of_fleet:
        before, after = outcome.errors(0.9)
        assert outcome.moved
        assert after < before / 20


def _family(start: Start) -> str:
    """Models whose names begin alike are left out together: fewer folds, and none of a sibling."""
    return start.model[:4]
