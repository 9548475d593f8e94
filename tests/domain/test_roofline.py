"""The search for the first batch from which a condition holds."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from service.domain.roofline import StepWeights, first_batch, guessed, ridge_batch

MOST = 1 << 48
BATCHES = st.integers(1, MOST)


@given(BATCHES, BATCHES)
def test_the_first_batch_is_found_wherever_the_search_begins(first: int, near: int) -> None:
    assert first_batch(lambda batch: batch >= first, near) == first


@given(BATCHES)
def test_a_condition_that_never_holds_has_no_first_batch(near: int) -> None:
    assert first_batch(lambda batch: batch > MOST, near) is None


@pytest.mark.parametrize("most", [0.0, -1.0, 0.5, 7.9, 1e30])
def test_a_guess_is_a_batch_that_is_looked_at(most: float) -> None:
    assert 1 <= guessed(lambda batch: min(float(batch), most), most) <= MOST


@given(st.integers(1, 1 << 40), st.integers(1, 1 << 42), st.integers(1, 1 << 40), st.integers(1, 64))
def test_the_ridge_of_experts_is_the_first_batch_that_reaches_it(
    dense: int, experts: int, parameters: int, active: int
) -> None:
    weights = StepWeights(dense, experts, 0, parameters, (64, active))
    bandwidth, peak = 3.35e12, 989.4e12

    ridge = ridge_batch(weights, bandwidth, peak)

    def reached(batch: int) -> bool:
        read = peak * dense + peak * experts * weights.touched(batch)
        return 2 * parameters * bandwidth * batch >= read

    assume(reached(MOST))
    assert reached(ridge)
    assert ridge == 1 or not reached(ridge - 1)


def test_a_ridge_beyond_every_batch_that_is_looked_at_is_that_of_all_experts() -> None:
    weights = StepWeights(0, 1 << 42, 0, 1, (64, 8))

    assert ridge_batch(weights, 1.0, 4096.0) == 1 << 53
