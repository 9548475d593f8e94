"""From single comparisons to what is learned: robust, rung by rung, and only where it would have helped.

Each probe counts once, with the median of what it says; probes far from the others are set aside. A rung has to prove
itself: everything below it is left out in turn and foretold by the others. Where that is no better than by the catalog
alone, the rung moves nothing if the catalog was right anyway, and is refused otherwise. What few probes say is drawn
toward the rung above, which counts as one probe more, in the estimate and in its spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from service.domain.calibration import LADDERS, Learned, Quantity, Rung, Scope, rung_name
from service.domain.robust import median, trusted
from service.domain.spreads import extremes, interval

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

RULES: Final = 4
"""Counts up when the comparisons or their statistics change: everything is then learned again."""

LEAST_PROBES: Final = 3
"""Of two that differ nobody knows which one is right."""

LEAST_MEASUREMENTS: Final = (3, 6)
"""On the finest rung, and on those above it, whose measurements differ in more than chance."""

_LEAST_GAIN: Final = 0.1
_RIGHT: Final = 2
_NOTHING_LEFT: Final = -1.0
_MOST_NAMED: Final = 8
_ALWAYS_NAMED: Final = frozenset({"version", "driver"})
_MOST_FOLDS: Final = 20

Key = tuple[Quantity, str]


class Observation(NamedTuple):
    """One quantity of one row: how far it lies from what the catalog says, and the value as measured."""

    beyond: float
    measured: float


class Sample(NamedTuple):
    """All that one row teaches, or in the middle so many rows of one probe under the same circumstances."""

    probe: str
    scope: Scope
    at: datetime
    observations: Mapping[Quantity, Observation]
    rows: int = 1


def merged(samples: Sequence[Sample]) -> Sample:
    """Samples of one probe and one scope as one, with what they say in the middle."""
    if len(samples) == 1:
        return samples[0]
    told: dict[Quantity, list[Observation]] = {}
    for sample in samples:
        for quantity, observation in sample.observations.items():
            told.setdefault(quantity, []).append(observation)
    middle = {
        quantity: Observation(median([one.beyond for one in every]), median([one.measured for one in every]))
        for quantity, every in told.items()
    }
    newest = max(sample.at for sample in samples)
    return Sample(samples[0].probe, samples[0].scope, newest, middle, sum(sample.rows for sample in samples))


class _Told(NamedTuple):
    """What a sample says of one quantity; `part` is its place on the rung below, or its probe on the finest."""

    sample: Sample
    observation: Observation
    part: str


def learn(samples: Sequence[Sample]) -> dict[Key, Learned]:
    """What the samples teach, on every rung that any of them is on."""
    learned: dict[Key, Learned] = {}
    for quantity, ladder in LADDERS.items():
        telling = [sample for sample in samples if quantity in sample.observations]
        # From the coarsest rung down: each is drawn toward the one above it.
        for index in range(len(ladder) - 1, -1, -1) if telling else ():
            for key, told in _by_key(quantity, ladder, index, telling).items():
                scope = told[0].sample.scope
                above = _above(learned, quantity, ladder[index + 1 :], scope)
                learned[quantity, key] = _learned(quantity, ladder, index, key, told, above)
    return learned


def _by_key(
    quantity: Quantity, ladder: tuple[Rung, ...], index: int, samples: Sequence[Sample]
) -> dict[str, list[_Told]]:
    found: dict[str, list[_Told]] = {}
    for sample in samples:
        key = sample.scope.key(ladder[index])
        if key is not None:
            found.setdefault(key, []).append(_Told(sample, sample.observations[quantity], _part(sample, ladder, index)))
    return found


def _part(sample: Sample, ladder: tuple[Rung, ...], index: int) -> str:
    """What is left out with a sample: all on its rung below, or all of its probe where nobody asks for that rung."""
    if _is_finest(ladder, index):
        return sample.probe
    return sample.scope.key(ladder[index - 1]) or ""


def _is_finest(ladder: tuple[Rung, ...], index: int) -> bool:
    """Whether no question asks for a finer rung: drivers are not asked for."""
    return not index or "driver" in ladder[index - 1]


def _above(learned: Mapping[Key, Learned], quantity: Quantity, rungs: tuple[Rung, ...], scope: Scope) -> Learned | None:
    """The next rung that may be used; None where the catalog's word is all there is."""
    for rung in rungs:
        found = learned.get((quantity, scope.key(rung) or ""))
        if found is not None and found.usable:
            return found
    return None


def _learned(  # noqa: PLR0913, PLR0917  # a rung is its ladder, its place there, its key and what was told
    quantity: Quantity, ladder: tuple[Rung, ...], index: int, key: str, told: Sequence[_Told], above: Learned | None
) -> Learned:
    if "driver" in ladder[0] and "driver" not in ladder[index]:
        told = _under_newest_drivers(told)
    everyone = _probe_medians(told)
    kept = trusted(everyone, quantity.resolution)
    believed = [one for one in told if one.sample.probe in kept]
    scope = believed[0].sample.scope
    exact = quantity is Quantity.VISIBLE_MEMORY
    before, after = _errors(quantity, told, exact=exact)
    confirms = before is not None and not _helps(quantity, before, after or 0.0)
    drawn = _drawn(list(kept.values()), above.estimate if above else 0.0, exact=exact)
    estimate = 0.0 if confirms and not exact else drawn
    low, high = _spread(quantity, believed, estimate, len(kept), above)
    return Learned(
        quantity=quantity,
        rung=rung_name(ladder[index]),
        key=key,
        scope={name: word for name, word in scope.document().items() if name in ladder[index]},
        estimate=estimate,
        low=low,
        high=high,
        measured=median([one.observation.measured for one in believed]),
        measurements=sum(one.sample.rows for one in believed),
        probes=len(kept),
        outliers=len(everyone) - len(kept),
        newest=max(one.sample.at for one in believed),
        seen=_seen(believed, ladder[0]),
        error_before=before,
        error_after=after,
        refusal=_refusal(quantity, LEAST_MEASUREMENTS[not _is_finest(ladder, index)], told, kept, before, after),
    )


def _under_newest_drivers(told: Sequence[_Told]) -> list[_Told]:
    """Of each probe what it measured under the driver that it measured under last: nodes are updated."""
    newest: dict[str, Sample] = {}
    for one in told:
        known = newest.setdefault(one.sample.probe, one.sample)
        if one.sample.at > known.at:
            newest[one.sample.probe] = one.sample
    return [one for one in told if one.sample.scope.driver == newest[one.sample.probe].scope.driver]


def _probe_medians(told: Iterable[_Told]) -> dict[str, float]:
    """What each probe says, in the middle of all that it says."""
    by_probe: dict[str, list[float]] = {}
    for one in told:
        by_probe.setdefault(one.sample.probe, []).append(one.observation.beyond)
    return {probe: median(values) for probe, values in by_probe.items()}


def _spread(
    quantity: Quantity, told: Iterable[_Told], estimate: float, probes: int, above: Learned | None
) -> tuple[float, float]:
    """Between what the next one is expected; of sizes that are read, between what was read."""
    by_part: dict[str, list[_Told]] = {}
    for one in told:
        by_part.setdefault(one.part, []).append(one)
    parts = {part: list(_probe_medians(inside).values()) for part, inside in by_part.items()}
    if quantity is Quantity.VISIBLE_MEMORY:
        return extremes(parts)
    low, high = interval(parts, estimate, probes, above)
    # No rate is below nothing, however far few of them lie apart.
    return (low if quantity.unit == "bytes" else max(low, _NOTHING_LEFT)), high


def _drawn(values: Sequence[float], above: float, *, exact: bool) -> float:
    """The median, drawn toward the rung above as if that were one probe more; a size that is read is not drawn."""
    middle = median(values)
    return middle if exact else (len(values) * middle + above) / (len(values) + 1)


def _errors(quantity: Quantity, told: Sequence[_Told], *, exact: bool) -> tuple[float | None, float | None]:
    """Median errors of parts left out in turn: by the catalog alone, and foretold by the other parts."""
    parts: dict[str, list[_Told]] = {}
    for one in told:
        parts.setdefault(one.part, []).append(one)
    if len(parts) == 1:
        return None, None
    before, after = [], []
    for left_out in _folds(sorted(parts)):
        others = [one for name, inside in parts.items() if name not in left_out for one in inside]
        foretold = _drawn(list(trusted(_probe_medians(others), quantity.resolution).values()), 0.0, exact=exact)
        for name in left_out:
            right = median(list(_probe_medians(parts[name]).values()))
            before.append(abs(right))
            after.append(abs(right - foretold))
    return median(before), median(after)


def _folds(names: Sequence[str]) -> list[set[str]]:
    """Each name alone, or where they are many, together with others."""
    count = min(len(names), _MOST_FOLDS)
    return [set(names[first::count]) for first in range(count)]


def _refusal(  # noqa: PLR0913, PLR0917  # all that speaks against a rung
    quantity: Quantity,
    least: int,
    told: Sequence[_Told],
    kept: Mapping[str, float],
    before: float | None,
    after: float | None,
) -> str | None:
    believed = sum(one.sample.rows for one in told if one.sample.probe in kept)
    if len(kept) < LEAST_PROBES:
        return f"{len(kept)} of the {LEAST_PROBES} probes that it takes"
    if believed < least:
        return f"{believed} of the {least} measurements that it takes"
    if before is None or after is None:
        return "all of one kind, which says nothing about others"
    if not _helps(quantity, before, after) and before > _RIGHT * quantity.resolution:
        return "what is left out is foretold no better than by the catalog alone"
    return None


def _helps(quantity: Quantity, before: float, after: float) -> bool:
    """Whether what is left out is foretold better by more than means nothing."""
    return before - after >= max(_LEAST_GAIN * before, quantity.resolution)


def _seen(told: Sequence[_Told], finest: Rung) -> dict[str, tuple[str, ...]]:
    """What the scopes say of each word of the finest rung, and of releases and drivers; a few of many."""
    found: dict[str, set[str]] = {}
    for one in told:
        for name, word in one.sample.scope.document().items():
            if name in finest or name in _ALWAYS_NAMED:
                found.setdefault(name, set()).add(word)
    return {name: tuple(sorted(words)[:_MOST_NAMED]) for name, words in sorted(found.items())}
