"""Predict, bracket, bisect, confirm: the ceiling is found whatever the prediction, in few attempts."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.search import ceiling


@given(st.integers(0, 5000), st.integers(0, 5000))
def test_the_planted_ceiling_is_found_whatever_was_predicted(planted: int, predicted: int) -> None:
    found = ceiling(predicted, lambda number: number <= planted, precision=1e-9)

    assert (found.passed, found.failed) == (planted, planted + 1)


def test_a_good_prediction_takes_few_attempts() -> None:
    found = ceiling(100, lambda number: number <= 103, precision=0.01)

    assert found.passed <= 103 < found.failed
    assert found.failed - found.passed <= 1 + 0.01 * found.passed
    assert len(found.attempts) <= 9


def test_a_coarse_ceiling_is_within_its_precision() -> None:
    found = ceiling(1000, lambda number: number <= 870, precision=0.05)

    assert found.passed <= 870 < found.failed
    assert found.failed - found.passed <= 0.05 * found.passed + 1


def test_both_ends_are_seen_twice() -> None:
    found = ceiling(10, lambda number: number <= 10, precision=0.01)

    assert found.attempts.count((10, True)) == 2
    assert found.attempts.count((11, False)) == 2


def test_a_pass_that_does_not_pass_again_is_not_believed() -> None:
    tries: dict[int, int] = {}

    def attempt(number: int) -> bool:
        tries[number] = tries.get(number, 0) + 1
        return number <= 9 or (number == 10 and tries[number] == 1)

    found = ceiling(10, attempt, precision=0.01)

    assert (found.passed, found.failed) == (9, 10)


def test_attempts_that_contradict_each_other_for_ever_end_in_an_error() -> None:
    tries: Counter[int] = Counter()

    def attempt(number: int) -> bool:
        tries[number] += 1
        return number <= 10 or tries[number] > 1

    with pytest.raises(MeasureError, match="in use"):
        ceiling(10, attempt, precision=0.0001)


def test_weights_that_do_not_fit_alone_are_told() -> None:
    with pytest.raises(MeasureError, match="weights alone"):
        ceiling(0, lambda _: False, precision=0.01)
