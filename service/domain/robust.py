"""Robust statistics of few figures from sources that may lie: medians, quantiles, and who is far off."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Source = TypeVar("Source")

_NORMAL = 1.4826
"""Standard deviations of a normal distribution in a median absolute deviation."""

_FAR = 3.5
"""Deviations from which a figure counts as an outlier (Iglewicz and Hoaglin, 1993)."""

_LEAST_JUDGED = 5
"""Sources from which on outliers can be told; of fewer nobody knows who is wrong, and the median stands anyway."""


def median(values: Sequence[float]) -> float:
    """The middle of one or more values."""
    return quantile(values, 0.5)


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which that share of the values lies, between neighbours in proportion; one value at least."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


def weighted_quantile(weighted: Sequence[tuple[float, float]], share: float) -> float:
    """The same of values with weights: each stands for a stretch as long as its weight, by its middle."""
    ordered, places, reached = sorted(weighted), [], 0.0
    for _, weight in ordered:
        places.append(reached + weight / 2)
        reached += weight
    wanted = places[0] + share * (places[-1] - places[0])
    above = next(index for index, place in enumerate(places) if place >= wanted or index == len(places) - 1)
    below = max(0, above - 1)
    step = places[above] - places[below]
    part = min(1.0, (wanted - places[below]) / step) if step else 1.0
    return ordered[below][0] + (ordered[above][0] - ordered[below][0]) * part


def trusted(figures: Mapping[Source, float], resolution: float) -> dict[Source, float]:
    """The figures without those far from the others; `resolution` is a difference that means nothing."""
    if len(figures) < _LEAST_JUDGED:
        return dict(figures)
    middle = median(list(figures.values()))
    scale = _NORMAL * median([abs(value - middle) for value in figures.values()])
    reach = _FAR * max(scale, resolution / 2)
    return {source: value for source, value in figures.items() if abs(value - middle) <= reach}
