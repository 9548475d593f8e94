"""How quotes fared: errors against what was measured, with and without what was learned, and drifts."""

from typing import Any

import pytest

from service.domain.accuracy import Score, score, summed_up
from tests.domain.conftest import Shelf
from tests.domain.test_taught_quotes import TaughtShelf
from tests.fleet import GIB, H100, MODEL, RELEASE, SHELF, capacity_row, fleet, modelled

BEYOND = 2.0 * GIB
POOL, TOKENS = modelled(H100, RELEASE, MODEL, 8192, 1)


def scored(row: dict[str, Any], shelf: Shelf = SHELF) -> Score:
    found = score(row, shelf)
    assert found is not None
    return found


def ceiling(passed: int, failed: int | None = None) -> dict[str, Any]:
    values = {"passed_sequences": passed, **({} if failed is None else {"failed_sequences": failed})}
    return {**capacity_row(1, 0.0), "kind": "batch_ceiling", "values": values}


def test_a_quote_that_promised_too_much_has_a_positive_error() -> None:
    found = scored(capacity_row(1, BEYOND))

    assert found.error == pytest.approx(POOL / (POOL - BEYOND) - 1)
    assert found.learned_error is None
    assert (found.family, found.gpu, found.engine, found.version) == ("llama", H100, "vllm", RELEASE)
    assert (found.figure, found.inside) == ("kv_cache_bytes", False)
    assert found.group == scored(capacity_row(2, 0.0)).group


def test_what_was_learned_before_is_scored_beside_the_catalog() -> None:
    found = scored(capacity_row(99, BEYOND), TaughtShelf(*fleet(BEYOND)))

    assert found.learned_error is not None
    assert abs(found.learned_error) < found.error / 4
    assert found.inside


def test_printed_tokens_are_compared_where_they_are_told() -> None:
    row = capacity_row(1, 0.0, kv_capacity_tokens=TOKENS)

    assert (scored(row).figure, scored(row).error) == ("kv_capacity_tokens", 0)


@pytest.mark.parametrize(
    "passed, failed, error",
    [(0, 1, 0.0), (0, None, 0.0), (-1, None, 0.0), (1, None, -1), (-9, -8, 1)],
)
def test_a_ceiling_is_met_between_what_passed_and_what_failed(passed: int, failed: int | None, error: float) -> None:
    quoted = TOKENS // 8192
    found = scored(ceiling(quoted + passed, None if failed is None else quoted + failed))

    assert (found.error > 0) - (found.error < 0) == error


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": "prefill"},
        {"gpu": {"name": "cpu"}},
        {"values": {"kv_capacity_tokens": 0, "max_concurrency": 3.0}},
        {"software": {"engine": "vllm"}},
        {"gpu": {"name": H100, "count": 8}, "setup": {"model": MODEL}},
    ],
    ids=str,
)
def test_what_nobody_would_have_quoted_is_not_scored(changed: dict[str, Any]) -> None:
    assert score({**capacity_row(1, 0.0), **changed}, SHELF) is None


def of(error: float, learned: float | None = None) -> Score:
    return Score("llama", H100, "vllm", RELEASE, "kv_cache_bytes", error, learned, abs(error) < 0.03, 0.03)


def test_a_group_is_summed_up_by_medians_that_one_score_cannot_move() -> None:
    found = summed_up([of(0.01), of(0.012), of(0.011), of(9.0), of(-0.01, 0.002)])

    assert found.median_error == 0.011
    assert found.typical_error == 0.011
    assert (found.learned, found.learned_typical_error) == (1, 0.002)
    assert (found.within_five_percent, found.inside_interval) == (0.8, 0.8)
    assert not found.drifting


@pytest.mark.parametrize("recent, drifting", [(4, False), (11, True)])
def test_a_drift_is_a_recent_median_outside_the_band(recent: int, drifting: bool) -> None:
    scores = [*[of(0.08)] * recent, *[of(0.001)] * 20]

    assert summed_up(scores).drifting is drifting


def test_a_few_scores_are_no_drift_yet() -> None:
    assert not summed_up([of(0.5)] * 4).drifting
    assert summed_up([of(0.5)] * 5).drifting
