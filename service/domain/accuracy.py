"""How quotes fare: each measured ceiling or capacity beside what would have been quoted before it came.

By the catalog alone, and with what was learned until then: never from the measurement itself. Errors are shares of the
measured figure, positive where the quote promised too much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.errors import QuoteError
from service.domain.measurement import CPU, gpu_name
from service.domain.observations import Compared, Memo
from service.domain.robust import median, quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.holding import Holding
    from service.domain.question import Catalog

SCORED: Final = frozenset({"engine_capacity", "batch_ceiling"})
"""Kinds of measurements that a quote foretells."""

RECENT: Final = 20
_FIGURES: Final = ("kv_capacity_tokens", "kv_cache_bytes", "passed_sequences")
_ROUNDED: Final = 1e-3
_LEAST_RECENT: Final = 5
_LEAST_BAND: Final = 0.02
_GOOD: Final = 0.05
_UNQUOTED: Final = (QuoteError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)


class Score(NamedTuple):
    """One measurement beside its quotes. `band` is how far the quote itself said that it may be off, as a share."""

    family: str
    gpu: str
    engine: str
    version: str
    figure: str
    error: float
    learned_error: float | None
    inside: bool
    band: float

    @property
    def group(self) -> str:
        """What it is counted with."""
        return "\0".join(self[:5])


def score(row: Mapping[str, Any], catalog: Catalog, memo: Memo | None = None) -> Score | None:
    """A row beside the quotes of a catalog whose calibration is older than the row; None where nothing was quoted."""
    if row["kind"] not in SCORED or (gpu_name(row) or CPU).casefold() == CPU:
        return None
    try:
        return _score(Compared(row, catalog, memo))
    except _UNQUOTED:
        return None


def _score(row: Compared) -> Score | None:
    figure = next((name for name in _FIGURES if row.values.get(name)), None)
    if figure is None:
        return None
    question, alone = row.held(own_memory=False)
    asked, held = row.held(own_memory=False, calibration="auto")
    taught = held if asked.taught else None
    quoted = taught or alone
    own = _error(row.values, figure, quoted)
    band = _band(quoted)
    return Score(
        family=question.scenario.model.architecture.model_type,
        gpu=row.gpu.id,
        engine=question.engine.name,
        version=question.version or "none",
        figure=figure,
        error=_error(row.values, figure, alone),
        learned_error=None if taught is None else own,
        inside=abs(own) <= max(band, _ROUNDED),
        band=band,
    )


def _error(values: Mapping[str, Any], figure: str, held: Holding) -> float:
    measured: float = values[figure]
    if figure == "passed_sequences":
        failed = values.get("failed_sequences")
        if measured <= held.sequences and (failed is None or held.sequences < failed):
            return 0.0
        return held.sequences / measured - 1
    quoted = held.capacity_tokens if figure == "kv_capacity_tokens" else held.pool_bytes
    return quoted / measured - 1


def _band(held: Holding) -> float:
    """The larger side of the quote's own interval, as a share."""
    low, high = held.interval()["kv_cache_bytes"]
    pool = held.pool_bytes
    return max(abs(high / pool - 1), abs(1 - low / pool)) if pool else 1.0


class Accuracy(NamedTuple):
    """How quotes of one group fared; medians are of signed errors, `typical_error` of their sizes."""

    measurements: int
    median_error: float
    typical_error: float
    large_error: float
    learned: int
    learned_typical_error: float | None
    within_five_percent: float
    inside_interval: float
    recent_median_error: float
    drifting: bool


def summed_up(scores: Sequence[Score]) -> Accuracy:
    """A group of one score or more, the newest first."""
    errors = [score.error for score in scores]
    sizes = [abs(error) for error in errors]
    learned = [abs(score.learned_error) for score in scores if score.learned_error is not None]
    recent = scores[:RECENT]
    best = [score.error if score.learned_error is None else score.learned_error for score in recent]
    band = max(_LEAST_BAND, median([score.band for score in recent]))
    return Accuracy(
        measurements=len(scores),
        median_error=median(errors),
        typical_error=median(sizes),
        large_error=quantile(sizes, 0.9),
        learned=len(learned),
        learned_typical_error=median(learned) if learned else None,
        within_five_percent=sum(size <= _GOOD for size in sizes) / len(sizes),
        inside_interval=sum(score.inside for score in scores) / len(scores),
        recent_median_error=median(best),
        drifting=len(recent) >= _LEAST_RECENT and abs(median(best)) > band,
    )
