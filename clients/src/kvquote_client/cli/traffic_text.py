"""An answer of `/traffic` as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kvquote_client.cli.figures import duration, share, size, whole
from kvquote_client.cli.fit_text import heading, notes, understood
from kvquote_client.cli.screen import Part

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kvquote_client.cli.screen import Screen
    from kvquote_client.traffic_answers import CurveRow, Step, TrafficAnswer

_LOOKS: Final = {
    "weights": ("█", 34),
    "cache": ("▓", 32),
    "compute": ("▒", 33),
    "communication": ("▚", 35),
    "overhead": ("░", 90),
}


def lines(answer: TrafficAnswer, screen: Screen, *, why: bool = False) -> list[str]:
    """All that is shown; `why` adds how it was come by."""
    return [
        heading(answer, screen),
        *understood(answer, screen),
        "",
        *_read(answer),
        *(_step(answer.step, screen) if answer.step else ["no times: bandwidth or peak is not known"]),
        *_rates(answer),
        *_prefill(answer),
        *_curve(answer.curve or (), screen),
        *notes(answer, screen, why=why),
    ]


def _read(answer: TrafficAnswer) -> list[str]:
    fits = "" if answer.fits else ", which do not fit"
    weights = f"{size(answer.weight_traffic_bytes)} of weights ({share(answer.weight_share or 0, 1)})"
    cache = f"{size(answer.cache_traffic_bytes)} of cache ({share(answer.cache_share or 0, 1)})"
    return [
        f"a step of {whole(answer.batch_size)} sequences of {whole(answer.context_tokens)} tokens{fits}",
        f"  reads {size(answer.total_traffic_bytes)}: {weights}, {cache}",
    ]


def _step(step: Step, screen: Screen) -> list[str]:
    told = [f"  takes {duration(step.seconds)}{_between(step.interval_seconds)}, bound by {step.bound}", ""]
    parts = [(name, getattr(step.shares, name) or 0.0) for name in _LOOKS]
    marks = (
        f"{screen.painted(screen.text(_LOOKS[name][0]), _LOOKS[name][1])} {name} {share(part, 1)}"
        for name, part in parts
        if part
    )
    return [*told, screen.bar([Part(part, *_LOOKS[name]) for name, part in parts]), "   ".join(marks), ""]


def _rates(answer: TrafficAnswer) -> list[str]:
    told = []
    if answer.tokens_per_second is not None:
        each = answer.tokens_per_second_per_sequence or 0.0
        told.append(f"tokens        {whole(answer.tokens_per_second)} a second, {each:,.1f} for each sequence")
    passes = [
        f"the cache passes the weights at batch {whole(answer.crossover_batch)}" if answer.crossover_batch else "",
        f"compute-bound from batch {whole(answer.ridge_batch)} on, by weights alone" if answer.ridge_batch else "",
    ]
    said = ", ".join(filter(None, passes))
    return [*told, said] if said else told


def _prefill(answer: TrafficAnswer) -> list[str]:
    prefill = answer.prefill
    if prefill.seconds is None:
        return []
    between = _between(prefill.interval_seconds or ())
    return [f"prefill       {whole(prefill.tokens)} tokens in {duration(prefill.seconds)}{between}"]


def _curve(rows: Sequence[CurveRow], screen: Screen) -> list[str]:
    if not rows:
        return []
    header = ["batch", "context", "reads", "cache", "step", "tokens/s", "fits"]
    cells = [
        [
            whole(row.batch_size),
            whole(row.context_tokens),
            size(row.total_traffic_bytes),
            share(row.cache_share or 0, 1),
            duration(row.step_seconds),
            whole(row.tokens_per_second),
            "yes" if row.fits else "no",
        ]
        for row in rows
    ]
    return ["", *screen.table(header, cells)]


def _between(interval: Sequence[float]) -> str:
    return f" ({duration(min(interval))} to {duration(max(interval))})" if interval else ""
