"""Between which values a measurement under a rung's circumstances is expected: nine times in ten.

A rung is asked for what it has not seen, another of its parts: on the finest rung another probe, on a coarser one
another layout, class or release. So each part weighs the same, however many probes reported of it, and how far parts
lie apart counts with how far probes of a part do. Of few parts the extremes are not known: their quantiles are taken
for those of a small sample. What few probes say is also held against the rung above, whose spread counts as that of
one probe more, as its estimate does.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING

from service.domain.robust import weighted_quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.calibration import Learned

_LOW, _MIDDLE, _HIGH = 0.05, 0.5, 0.95
_FEWEST = 3


def interval(
    parts: Mapping[str, Sequence[float]], estimate: float, probes: int, above: Learned | None
) -> tuple[float, float]:
    """Low and high of what is expected: from what each probe says of each part, around the drawn estimate."""
    low, middle, high = _quantiles(parts)
    widened = small_sample(len(parts))
    less = max(0.0, estimate - middle + widened * (middle - low))
    more = max(0.0, middle - estimate + widened * (high - middle))
    if above is not None:
        less = _pooled(less, probes, max(0.0, above.estimate - above.low))
        more = _pooled(more, probes, max(0.0, above.high - above.estimate))
    return estimate - less, estimate + more


def extremes(parts: Mapping[str, Sequence[float]]) -> tuple[float, float]:
    """Low and high of what was measured, without a word on what was not."""
    low, _, high = _quantiles(parts)
    return low, high


def _quantiles(parts: Mapping[str, Sequence[float]]) -> tuple[float, float, float]:
    weighted = [(value, 1 / len(values)) for values in parts.values() for value in values]
    low, middle, high = (weighted_quantile(weighted, share) for share in (_LOW, _MIDDLE, _HIGH))
    return low, middle, high


def small_sample(count: int) -> float:
    """How many times as far the tails lie as the quantiles of so few values do.

    The half-width of Student's interval for one value more, t(0.95, n - 1) sqrt(1 + 1/n), over the mean 0.95 quantile
    of n normal values: 4.4 of 3, 2.3 of 5, 1.5 of 10, 1.25 of 20, which this is within 4 % of. Two are taken for three,
    as no sample of two tells its spread.
    """
    return 1 + 4.1 / (max(count, _FEWEST) - 1.8)


def _pooled(own: float, probes: int, above: float) -> float:
    return sqrt((probes * own**2 + above**2) / (probes + 1))
