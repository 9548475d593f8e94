"""What of a calibration a question uses: the finest rung that holds for it, and how answers say so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.domain.calibration import Quantity
from service.domain.ledger import Correction
from service.domain.scopes import RESERVING, device_scope, engine_batch, scope_of

if TYPE_CHECKING:
    from datetime import datetime

    from service.domain.calibration import Calibration, Learned, Scope
    from service.domain.gpu import Gpu
    from service.domain.question import Question

_OUTDATED = (
    "the catalog has changed what measurements were compared with; they are being compared again, and this is quoted"
    " from the catalog alone"
)


def seen_memory(calibration: Calibration, gpu: Gpu) -> Learned | None:
    """The memory that processes see on a device, where enough probes said so."""
    return calibration.find(Quantity.VISIBLE_MEMORY, device_scope(gpu)) if calibration.values else None


def teach(question: Question) -> Question:
    """Put what was learned of the engine's reserve into the budget, unless the question sets what it would change."""
    scope, asked = scope_of(question), question.echo.asked
    if question.calibration.is_outdated(scope):
        question.assumptions.append(_OUTDATED)
        return question
    question.assumptions += [said(learned, scope) for learned in question.taught]
    if scope.engine not in RESERVING or "reserve_bytes" in asked or "kv_cache_bytes" in asked:
        return question
    if not question.calibration.knows(Quantity.RESERVE, scope):
        return question
    learned = question.calibration.find(Quantity.RESERVE, replace(scope, batch=engine_batch(question)))
    if learned is not None:
        question.taught.append(learned)
        question.assumptions.append(said(learned, scope))
        budget = question.scenario.budget._replace(correction=_correction(learned))
        question.scenario = question.scenario._replace(budget=budget)
    return question


def _correction(learned: Learned) -> Correction:
    size = round(learned.estimate)
    less, more = max(0.0, size - learned.low), max(0.0, learned.high - size)
    return Correction(size, less, more, learned.probes, learned.rung, learned.own)


def said(learned: Learned, scope: Scope) -> str:
    """Which measurements stand behind it, and that they are of another release or driver where they are."""
    words = (
        f"{learned.quantity.replace('_', ' ')} as {learned.measurements} measurements of {learned.probes} probes have"
        f" it ({learned.rung})"
    )
    if scope.version is not None and learned.versions and scope.version not in learned.versions:
        words += f", none of them of release {scope.version}: of {', '.join(learned.versions)}"
    if learned.quantity is Quantity.VISIBLE_MEMORY and learned.drivers:
        words += f", under drivers {', '.join(learned.drivers)}"
    return words


def calibration_of(question: Question) -> dict[str, Any] | None:
    """What the answer says of the measurements behind it; None where none were used."""
    if not question.taught:
        return None
    # The reserve decides more than the memory that is seen, and comes after it.
    main = question.taught[-1]
    return {
        "rung": main.rung,
        "measurements": main.measurements,
        "probes": main.probes,
        "spread_bytes": [round(main.low), round(main.high)],
        "as_of": shown(main.newest),
        "learned": [_row(learned) for learned in question.taught],
    }


def _row(learned: Learned) -> dict[str, Any]:
    return {
        "quantity": learned.quantity.value,
        "rung": learned.rung,
        "beyond_catalog_bytes": round(learned.estimate),
        "spread_bytes": [round(learned.low), round(learned.high)],
        "measurements": learned.measurements,
        "probes": learned.probes,
        "versions": list(learned.versions),
        "drivers": list(learned.drivers),
        "as_of": shown(learned.newest),
    }


def shown(moment: datetime) -> str:
    """A time in UTC as answers write it."""
    return moment.isoformat().replace("+00:00", "Z")
