"""What is expected of measurements that nobody has made yet: of few it is not known well, and parts weigh the same."""

import random
from dataclasses import replace

import pytest

from service.domain.calibration import Learned, Quantity, Scope
from service.domain.learning import learn
from service.domain.robust import quantile, weighted_quantile
from service.domain.spreads import interval, small_sample
from tests.fleet import GIB, H100, RELEASE, fleet, rate_row, samples

FINEST = Scope(H100, "nvidia hopper", None, "vllm", RELEASE, "tp1", "dense", batch="8192x1024")


def reserve() -> Learned:
    """Any rung that was learned."""
    return next(value for (q, _), value in learn(samples(list(fleet(GIB)))).items() if q is Quantity.RESERVE)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("share", [0.05, 0.5, 0.95])
def test_values_of_one_weight_have_the_plain_quantiles(count: int, share: float) -> None:
    values = [random.Random(count).gauss(0, 1) for _ in range(count)]

    assert weighted_quantile([(value, 0.3) for value in values], share) == pytest.approx(quantile(values, share))


@pytest.mark.parametrize("count", [3, 5, 8, 20, 60])
def test_nine_of_ten_more_probes_lie_inside_however_few_there_were(count: int) -> None:
    chance = random.Random(count)
    inside = 0
    for _ in range(2000):
        parts = {str(number): [chance.gauss(5, 2)] for number in range(count)}
        middle = weighted_quantile([(values[0], 1) for values in parts.values()], 0.5)
        low, high = interval(parts, middle, count, None)
        inside += low <= chance.gauss(5, 2) <= high

    # Of three, whose sides are taken apart, 85 %.
    assert 0.84 < inside / 2000 < 0.96


def test_nine_of_ten_more_parts_lie_inside_however_many_probes_one_has() -> None:
    chance = random.Random(1)
    inside = 0
    for _ in range(2000):
        centres = [chance.gauss(0, 3) for _ in range(6)]
        parts = {
            str(n): [chance.gauss(centre, 1) for _ in range(20 if n == 0 else 2)] for n, centre in enumerate(centres)
        }
        everything = [value for values in parts.values() for value in values]
        low, high = interval(parts, quantile(everything, 0.5), 30, None)
        inside += low <= chance.gauss(chance.gauss(0, 3), 1) <= high

    assert inside / 2000 > 0.86


def test_an_estimate_that_was_drawn_away_is_no_reason_to_leave_out_what_was_measured() -> None:
    low, high = interval({"a": [10.0], "b": [11.0], "c": [12.0]}, 8.0, 3, None)

    assert low <= 8.0
    assert high >= 11 + small_sample(3) * 0.9


def test_the_rung_above_counts_as_one_probe_more() -> None:
    above = replace(reserve(), estimate=0.0, low=-20.0, high=10.0)
    parts = {name: [0.0] for name in "abc"}

    low, high = interval(parts, 0.0, 3, above)

    assert (low, high) == (-10.0, 5.0)
    assert interval(parts, 0.0, 3, None) == (0.0, 0.0)


def test_many_probes_of_one_layout_do_not_hide_how_far_another_lies() -> None:
    rows = [row for version in ("0.17.0", "0.18.0") for row in fleet(1.0 * GIB, nodes=40, version=version)]
    rows += fleet(2.0 * GIB, nodes=3, version=RELEASE)

    learned = learn(samples(rows))

    coarse = learned[Quantity.RESERVE, f"gpu={H100} engine=vllm"]
    assert coarse.high > 2.0 * GIB


def test_no_rate_is_expected_below_nothing() -> None:
    rows = [
        rate_row(p, "memory_bandwidth", bytes_per_second=rate, access="read")
        for p, rate in enumerate((4e11, 1e12, 2.9e12), 1)
    ]

    assert all(value.low >= -1 for value in learn(samples(rows)).values())
