"""Rounding: to the byte, in one place."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from service.domain.units import MAX_EXACT_INTEGER, down, portion, up


@given(st.integers(0, MAX_EXACT_INTEGER), st.floats(0, 1) | st.integers(0, 1))
def test_a_portion_is_of_the_share_as_it_is_written(size: int, share: float) -> None:
    assert portion(size, share) == int(size * Fraction(str(share)))


def test_nine_tenths_are_exact() -> None:
    assert portion(80_000_000_000, 0.9) == 72_000_000_000


@given(st.integers(0, MAX_EXACT_INTEGER), st.integers(1, 1 << 20))
def test_multiples_around_a_size_are_its_nearest(size: int, step: int) -> None:
    below, above = down(size, step), up(size, step)
    assert below % step == above % step == 0
    assert size - step < below <= size <= above < size + step
