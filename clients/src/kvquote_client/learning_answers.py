"""What measurements taught, and how quotes fared beside them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from kvquote_client.reading import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class CalibrationRow(Answer):
    """What one rung of the ladder knows of one quantity, beyond what the catalog alone says.

    `estimate`, `low`, `high` and the errors are in `unit`: bytes on a GPU, or shares of what the catalog says. `low`
    and `high` are as measured; `estimate` is drawn toward the rung above, and may lie outside of them. What does not
    matter on the rung is None. `refusal` says why quotes do not use it.
    """

    essential: ClassVar[tuple[str, ...]] = ("quantity", "rung")

    quantity: str
    unit: str
    rung: str
    gpu: str | None
    architecture: str | None
    driver: str | None
    engine: str | None
    engine_version: str | None
    layout: str | None
    model_class: str | None
    dtype: str | None
    ranks: str | None
    batch: str | None
    estimate: float
    low: float
    high: float
    measured: float
    measurements: int
    probes: int
    outliers: int
    seen: Mapping[str, Sequence[str]]
    error_before: float | None
    error_after: float | None
    usable: bool
    refusal: str | None
    newest_at: str
    revision: int
    known_from: str
    known_until: str | None


@dataclass(frozen=True)
class AccuracyRow(Answer):
    """How quotes of one group fared, over its newest measurements; errors are shares of the measured figure.

    They are positive where a quote promised too much. `learned` is how many were also quoted with what had been learned
    before they came.
    """

    essential: ClassVar[tuple[str, ...]] = ("family", "figure")

    family: str
    gpu: str
    engine: str
    engine_version: str
    figure: str
    measurements: int
    probes: int
    median_error: float
    typical_error: float
    large_error: float
    learned: int
    learned_typical_error: float | None
    within_five_percent: float
    inside_interval: float
    recent_median_error: float
    drifting: bool
    newest_at: str
