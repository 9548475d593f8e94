"""The fit of step times recovers what was planted."""

import random
from dataclasses import replace

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.fit import Point, fitted

SIZES = [(n, b, length) for n in (1, 4, 8) for b in (1, 8, 32, 128) for length in (512, 2048, 8192)]
A, W, P, C = 20e-6, 150e-6, 0.4e-6, 0.9e-9


def planted(*, noise: float = 0.0, experts: bool = False) -> list[Point]:
    draw = random.Random(7).gauss
    points = []
    for n, b, length in SIZES:
        touched = 64 * (1 - (1 - 4 / 64) ** b) if experts else 0.0
        seconds = A + n * (W + b * P + b * length * C + touched * 3e-6)
        points.append(Point(n, b, b * length, seconds * (1 + draw(0, noise)), touched))
    return points


def test_planted_coefficients_come_back_exactly() -> None:
    fit = fitted(planted())

    found = (fit.fixed_seconds, fit.layer_seconds, fit.layer_sequence_seconds, fit.layer_token_seconds)
    assert found == pytest.approx((A, W, P, C), rel=1e-6)
    assert (fit.relative_residual, fit.held_out_error) == pytest.approx((0, 0), abs=1e-9)
    assert fit.points == len(SIZES)


def test_experts_come_apart_from_the_rest_of_a_layer() -> None:
    fit = fitted(planted(experts=True))

    assert (fit.layer_seconds, fit.layer_expert_seconds) == pytest.approx((W, 3e-6), rel=1e-6)
    assert fit.told(experts=10)["layer_seconds"] == pytest.approx(W + 30e-6)


def test_noise_moves_them_little_and_shows_in_the_residual() -> None:
    fit = fitted(planted(noise=0.02))

    assert (fit.layer_seconds, fit.layer_token_seconds) == pytest.approx((W, C), rel=0.05)
    assert 0.01 < fit.relative_residual < 0.03


def test_a_few_disturbed_timings_do_not_move_them() -> None:
    points = planted(noise=0.002)
    for at in (3, 17, 30):
        points[at] = replace(points[at], seconds=points[at].seconds * 3)

    fit = fitted(points)

    assert (fit.layer_seconds, fit.layer_token_seconds) == pytest.approx((W, C), rel=0.02)
    assert fit.worst_residual > 0.5


def test_no_coefficient_is_negative_where_noise_would_make_it_so() -> None:
    points = [Point(n, b, b * k, 1e-3 * (n * 1.0 - 0.02 * b)) for n in (1, 2, 4) for b in (1, 4) for k in (8, 64)]

    fit = fitted(points)

    assert min(fit.fixed_seconds, fit.layer_sequence_seconds, fit.layer_token_seconds) == 0.0
    assert fit.layer_seconds > 0


def test_it_is_the_best_of_all_non_negative_fits() -> None:
    points = planted(noise=0.05)
    fit = fitted(points)

    # Plain relative least squares over a grid around the answer finds nothing much better: weights are mild on noise.
    def squares(w: float, c: float) -> float:
        near = replace(fit, layer_seconds=w, layer_token_seconds=c)
        return sum((near.seconds(p.layers, p.sequences, p.tokens) / p.seconds - 1) ** 2 for p in points)

    own = squares(fit.layer_seconds, fit.layer_token_seconds)
    around = [squares(fit.layer_seconds * i, fit.layer_token_seconds * j) for i in (0.9, 1.1) for j in (0.9, 1, 1.1)]
    assert own < min(around)


def test_a_step_that_bends_with_its_layers_is_told_as_an_error_of_extrapolating() -> None:
    bent = [replace(point, seconds=point.seconds * (1.3 if point.layers == 8 else 1.0)) for point in planted()]

    fit = fitted(bent)

    assert fit.held_out_error == pytest.approx(1 - 1 / 1.3, rel=0.01)
    assert fit.error >= fit.held_out_error


@pytest.mark.parametrize(
    "keep, words",
    [
        (lambda point: point.layers < 8, "layers"),
        (lambda point: point.sequences == 1, "sequences"),
        (lambda point: point.tokens == 512 * point.sequences, "lengths"),
    ],
)
def test_timings_that_cannot_tell_coefficients_apart_are_refused(keep: object, words: str) -> None:
    assert callable(keep)

    with pytest.raises(MeasureError, match=words):
        fitted([point for point in planted() if keep(point)])
