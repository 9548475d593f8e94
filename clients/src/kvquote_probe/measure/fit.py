"""Coefficients of step times, by robust least squares over non-negative values. No torch needed.

The form is `t = a + n (w + x p + y c + m e)`: n layers timed together, x sequences (or prompt tokens), y tokens read
from the cache (or pairs that are scored), m experts touched (0 in a dense layer). All five are times of something and
so never negative. Residuals are relative, since a step of 50 us and one of 50 ms count the same; a reading that
something else disturbed loses its weight.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import sqrt
from statistics import median

from kvquote_probe.commands import MeasureError

_ROUNDS = 20
_LEAST_LAYERS = 3
_HUBER = 1.345
"""In units of the residuals' own spread: where Huber's weights begin to fall (95 % efficient on normal noise)."""

_SPREAD_OF_MEDIAN = 1.4826
_TINY = 1e-12

Vector = tuple[float, float, float, float, float]


@dataclass(frozen=True)
class Point:
    """One timing: `layers` together, so many sequences, tokens read and experts touched, and the seconds it took."""

    layers: int
    sequences: float
    tokens: float
    seconds: float
    experts: float = 0.0

    def features(self) -> Vector:
        """What each coefficient is multiplied with."""
        n = self.layers
        return 1.0, float(n), n * self.sequences, n * self.tokens, n * self.experts


@dataclass(frozen=True)
class StepFit:
    """Seconds: of a step whatever it does, of a layer, of a sequence, a token read and an expert in a layer."""

    fixed_seconds: float
    layer_seconds: float
    layer_sequence_seconds: float
    layer_token_seconds: float
    layer_expert_seconds: float
    relative_residual: float
    """Root of the mean square of what the fit is off by, as shares of the timings."""
    worst_residual: float
    held_out_error: float
    """By what share the timings of the most layers differ from a fit of the others: how well it extrapolates."""
    points: int

    def seconds(self, layers: float, sequences: float, tokens: float, experts: float = 0.0) -> float:
        """What a step of so many layers takes."""
        each = self.layer_seconds + sequences * self.layer_sequence_seconds + tokens * self.layer_token_seconds
        return self.fixed_seconds + layers * (each + experts * self.layer_expert_seconds)

    @property
    def error(self) -> float:
        """The share that an extrapolation may be off by, as far as these timings can tell."""
        return max(self.relative_residual, self.held_out_error)

    def told(self, experts: float = 0.0) -> dict[str, float]:
        """The part `fit` of a row; weights of experts are read once a step and so belong to the layer's own time."""
        return {
            "fixed_seconds": self.fixed_seconds,
            "layer_seconds": self.layer_seconds + experts * self.layer_expert_seconds,
            "layer_sequence_seconds": self.layer_sequence_seconds,
            "layer_token_seconds": self.layer_token_seconds,
            "relative_residual": self.relative_residual,
            "points": self.points,
        }


def fitted(points: Sequence[Point]) -> StepFit:
    """The fit of timings; raises MeasureError where they cannot tell the coefficients apart."""
    for name, values, least in (
        ("numbers of layers", {point.layers for point in points}, _LEAST_LAYERS),
        ("numbers of sequences", {point.sequences for point in points}, 2),
        ("lengths", {point.tokens / point.sequences for point in points}, 2),
    ):
        if len(values) < least:
            raise MeasureError(f"A fit needs at least {least} {name}, there are {len(values)}.")
    found = _robust(points)
    residuals = [_off(point, found) for point in points]
    most = max(point.layers for point in points)
    fewer = _robust([point for point in points if point.layers < most])
    held_out = [_off(point, fewer) for point in points if point.layers == most]
    worst = max(abs(residual) for residual in residuals)
    return StepFit(*found, _rms(residuals), worst, _rms(held_out), points=len(points))


def _robust(points: Sequence[Point]) -> Vector:
    """Huber's weights, worked out anew from the residuals until they settle."""
    weights = [1.0] * len(points)
    found = _least_squares(points, weights)
    for _ in range(_ROUNDS):
        residuals = [abs(_off(point, found)) for point in points]
        bound = _HUBER * max(_SPREAD_OF_MEDIAN * median(residuals), _TINY)
        weights = [min(1.0, bound / max(residual, _TINY)) for residual in residuals]
        found = _least_squares(points, weights)
    return found


def _least_squares(points: Sequence[Point], weights: Sequence[float]) -> Vector:
    """The non-negative coefficients of least weighted relative squares.

    With five of them every set of those above zero can be tried: the best that is non-negative is the solution, as the
    conditions of Karush, Kuhn and Tucker have it, without an iteration that might not end.
    """
    rows = [[value / point.seconds for value in point.features()] for point in points]
    scales = [max((abs(row[at]) for row in rows), default=0.0) or 1.0 for at in range(5)]
    scaled = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    gram = [[sum(w * r[i] * r[j] for w, r in zip(weights, scaled, strict=True)) for j in range(5)] for i in range(5)]
    moment = [sum(w * r[i] for w, r in zip(weights, scaled, strict=True)) for i in range(5)]
    best, least = [0.0] * 5, 0.0
    for size in range(1, 6):
        for kept in combinations(range(5), size):
            solved = _solved([[gram[i][j] for j in kept] for i in kept], [moment[i] for i in kept])
            if solved is None or min(solved) < 0:
                continue
            # What is left of the squares, less those of the timings themselves: smaller is better.
            left = -sum(value * moment[i] for i, value in zip(kept, solved, strict=True))
            if left < least - _TINY:
                least = left
                by_place = dict(zip(kept, solved, strict=True))
                best = [by_place.get(i, 0.0) / scales[i] for i in range(5)]
    return best[0], best[1], best[2], best[3], best[4]


def _solved(matrix: list[list[float]], right: list[float]) -> list[float] | None:
    """By elimination with pivots; None where the matrix is singular."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for at in range(size):
        pivot = max(range(at, size), key=lambda row: abs(rows[row][at]))
        if abs(rows[pivot][at]) < _TINY:
            return None
        rows[at], rows[pivot] = rows[pivot], rows[at]
        for row in range(size):
            if row != at:
                factor = rows[row][at] / rows[at][at]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[at], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]


def _off(point: Point, coefficients: Vector) -> float:
    said = sum(value * each for value, each in zip(point.features(), coefficients, strict=True))
    return said / point.seconds - 1


def _rms(values: Sequence[float]) -> float:
    return sqrt(sum(value * value for value in values) / len(values)) if values else 0.0
