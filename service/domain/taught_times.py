"""Times as measurements taught them: achieved shares of a device's rates, all-reduces, and whole steps.

A step that was measured whole counts before its parts: then the catalog's coefficients stand, and their sum is scaled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.calibration import Quantity, Scope
from service.domain.ledger import blended
from service.domain.scopes import batch_name, scope_of
from service.domain.taught import said

if TYPE_CHECKING:
    from service.domain.calibration import Learned
    from service.domain.engines.times import Times
    from service.domain.question import Question

NOWHERE = Scope()
_PARTS = (
    (Quantity.BANDWIDTH, "bandwidth_bytes_per_second"),
    (Quantity.COMPUTE, "peak_flops_per_second"),
    (Quantity.ALL_REDUCE_LATENCY, None),
    (Quantity.ALL_REDUCE_RATE, None),
)


class TaughtTimes(NamedTuple):
    """Coefficients with what was learned of their parts, and where whole steps are looked up."""

    question: Question
    modelled: Times
    times: Times
    used: tuple[Learned, ...]
    scope: Scope

    def step(self, batch: int) -> Learned | None:
        """What was learned of whole steps of such batches."""
        question = self.question
        if question.gpu is None or not question.calibration.knows(Quantity.STEP, self.scope):
            return None
        return question.calibration.find(Quantity.STEP, replace(self.scope, batch=batch_name(batch)))

    def behind(self, batch: int) -> tuple[Learned, ...]:
        """What a step of that batch rests on."""
        whole = self.step(batch)
        return self.used if whole is None else (whole,)

    def say(self, batch: int) -> list[str]:
        """The same in words."""
        return [said(learned, self.scope) for learned in self.behind(batch)]


def taught_times(question: Question, times: Times) -> TaughtTimes:
    """The coefficients of a question's engine, with what was learned of the device."""
    if not question.calibration.values or question.gpu is None:
        return TaughtTimes(question, times, times, (), NOWHERE)
    own = scope_of(question)
    scope = replace(own, dtype=_dtype(question, times), ranks=str(question.scenario.layout.tensor))
    used, taught = tuple(_found(question, scope)), times
    for learned in used:
        taught = _changed(taught, learned)
    return TaughtTimes(question, times, taught, used, own)


def _found(question: Question, scope: Scope) -> list[Learned]:
    asked, alone = question.echo.asked, question.scenario.layout.tensor == 1
    found = []
    for quantity, own in _PARTS:
        if own in asked or (own is None and alone):
            continue
        learned = question.calibration.find(quantity, scope)
        if learned is not None and learned.estimate:
            found.append(learned)
    return found


def _dtype(question: Question, times: Times) -> str | None:
    """The type that matrices are multiplied in."""
    types = times.multiplies or question.scenario.weights.matmul_types
    found = question.gpu.peak(types) if question.gpu else None
    return None if found is None else found[0]


def _changed(times: Times, learned: Learned) -> Times:
    factor = 1 + learned.estimate
    changes: dict[str, Any] = {
        Quantity.BANDWIDTH: lambda: {
            "weight_fraction": min(1.0, times.weight_fraction * factor),
            "cache_fraction": min(1.0, times.cache_fraction * factor),
        },
        # No kernel of an engine multiplies faster than the best product of matrices alone.
        Quantity.COMPUTE: lambda: {
            "compute_fraction": min(1.0, times.compute_fraction * factor),
            "prefill_maximum": min(times.prefill_maximum, max(learned.measured, 1e-3)),
        },
        Quantity.ALL_REDUCE_LATENCY: lambda: {"all_reduce_seconds": times.all_reduce_seconds * factor},
        Quantity.ALL_REDUCE_RATE: lambda: {"link_bytes_per_second": times.link_bytes_per_second * factor},
    }
    return times._replace(**changes[learned.quantity]())


def spread_of(learned: Learned, modelled: float) -> float:
    """How far a step may be off, as a share: as a reserve may be."""
    middle = 1 + learned.estimate
    measured = max(learned.high - learned.estimate, learned.estimate - learned.low, 0.0) / middle
    return blended(learned.probes, measured, modelled) if learned.own else max(measured, modelled)
