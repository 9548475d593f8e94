"""An answer of `/logs` as a person reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kvquote_client.cli.figures import said, share, size, whole
from kvquote_client.cli.fit_text import heading, notes, verdict
from kvquote_client.cli.options import option_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvquote_client.cli.screen import Screen
    from kvquote_client.log_answers import LogAnswer, LogProblem, LogRefusal

_NONE: Final = "-"
_BAD: Final = 31
_REFUSALS: Final = {
    "kv_cache": "the KV cache does not hold one sequence",
    "free_memory": "less memory is free than it may take",
    "out_of_memory": "it ran out of memory",
}


def lines(answer: LogAnswer, screen: Screen, *, why: bool = False) -> list[str]:
    """All that is shown; `why` adds everything that the log says, and how the quote was come by."""
    return [
        screen.text(_whose(answer)),
        *_refusal(answer.refusal, screen),
        *_quoted(answer, screen),
        *_compared(answer, screen),
        *(_said(answer, screen) if why or not _differences(answer) else []),
        *_ranks(answer, screen),
        *_doubts(answer, screen),
        *(notes(answer.quote, screen, why=why) if answer.quote else []),
    ]


def rows(answer: LogAnswer) -> list[dict[str, Any]]:
    """What both have, a row each; all that the log says where there is no quote to put beside it."""
    return _compared_rows(answer) or [
        {
            "part": name,
            "unit": "text" if isinstance(value, str) else "bytes" if name.endswith("_bytes") else "count",
            "said": value,
            **dict.fromkeys(("quoted", "difference", "relative")),
        }
        for name, value in _found(answer)
    ]


def _compared_rows(answer: LogAnswer) -> list[dict[str, Any]]:
    """Bytes, then counts; `unit` tells them apart."""
    parts = [
        {
            "part": each.part,
            "unit": "bytes",
            "said": each.said_bytes,
            "quoted": each.quoted_bytes,
            "difference": each.difference_bytes,
            "relative": each.relative,
        }
        for each in answer.comparison
    ]
    counts = [
        {
            "part": each.name,
            "unit": "count",
            "said": each.said,
            "quoted": each.quoted,
            "difference": each.difference,
            "relative": each.relative,
        }
        for each in answer.counts
    ]
    return [*parts, *counts]


def _whose(answer: LogAnswer) -> str:
    engine = " ".join(filter(None, (said(answer.engine.name), answer.engine.version or "of an unknown release")))
    start = answer.start
    last = f"the last of {whole(start.number)} starts, " if start.number and start.number > 1 else ""
    place = f"lines {start.first_line} to {start.last_line} of {start.lines}" if start.first_line else "no line of it"
    return f"a log of {engine}: {last}{place}"


def _refusal(refusal: LogRefusal | None, screen: Screen) -> list[str]:
    if refusal is None:
        return []
    needed = f", {size(refusal.needed_bytes)} needed" if refusal.needed_bytes is not None else ""
    there = f", {size(refusal.available_bytes)} there" if refusal.available_bytes is not None else ""
    longest = f"; {whole(refusal.max_context_tokens)} tokens would do" if refusal.max_context_tokens else ""
    words = f"it did not start: {_REFUSALS.get(refusal.kind, said(refusal.kind))}{needed}{there}{longest}"
    return [screen.painted(screen.text(words), _BAD), f"  line {refusal.line}"]


def _quoted(answer: LogAnswer, screen: Screen) -> list[str]:
    if answer.quote is not None:
        return [f"quoted: {heading(answer.quote, screen)}", f"  {verdict(answer.quote, screen)}"]
    problem = answer.unquoted
    if problem is None:
        return []
    faults = [f"  {option_of(fault.get('pointer'))}: {fault.get('detail')}" for fault in problem.errors]
    return [screen.text(line) for line in (f"not quoted: {problem.title}", *(faults or [f"  {problem.detail}"]))]


def faults_in_a_line(problem: LogProblem) -> str:
    """Why there is no quote, fault by fault."""
    told = [f"{option_of(fault.get('pointer'))}: {fault.get('detail')}" for fault in problem.errors]
    return "; ".join(told) or said(problem.detail or problem.title)


def _compared(answer: LogAnswer, screen: Screen) -> list[str]:
    cells = list(_differences(answer))
    return ["", *screen.table(["part", "said", "quoted", "difference", ""], cells)] if cells else []


def _differences(answer: LogAnswer) -> list[list[str]]:
    return [_cells(row) for row in _compared_rows(answer)]


def _cells(row: Mapping[str, Any]) -> list[str]:
    shown = size if row["unit"] == "bytes" else _count
    apart, relative = row["difference"], row["relative"]
    signed = _NONE if apart is None else f"{'+' if apart > 0 else '-' if apart < 0 else ''}{shown(abs(apart))}"
    part = "" if relative is None else f"{'-' if relative < 0 else '+' if relative else ''}{share(abs(relative), 1)}"
    return [said(row["part"]), shown(row["said"]), shown(row["quoted"]), signed, part]


def _count(value: float | None) -> str:
    return whole(value) if value is None or float(value).is_integer() else f"{value:,.2f}"


def _said(answer: LogAnswer, screen: Screen) -> list[str]:
    """Each value that was found, and its line."""
    places = answer.said_at or {}
    cells = [[name, _value(name, value), _line(places.get(name))] for name, value in _found(answer)]
    return ["", *screen.table(["the log says", "", "line"], cells)] if cells else []


def _found(answer: LogAnswer) -> list[tuple[str, Any]]:
    return [(name, value) for name, value in answer.said.raw.items() if value is not None]


def _ranks(answer: LogAnswer, screen: Screen) -> list[str]:
    if len(answer.per_rank) < 2:  # noqa: PLR2004 - of one rank everything has been said
        return []
    ranks = [(said(rank.worker), rank.said or {}) for rank in answer.per_rank]
    names = list(dict.fromkeys(name for _, values in ranks for name in values))
    cells = [[worker, *(_value(name, values.get(name)) for name in names)] for worker, values in ranks]
    return ["", *screen.table(["worker", *(name.removesuffix("_bytes") for name in names)], cells)]


def _doubts(answer: LogAnswer, screen: Screen) -> Iterator[str]:
    if answer.left_out or answer.warnings:
        yield ""
    for each in answer.left_out:
        where = f" (line {each.line})" if each.line else ""
        yield screen.text(f"left out: {each.what}{where}: {each.reason}")
    for warning in answer.warnings:
        yield screen.text(f"warning: {warning}")


def _value(name: str, value: Any) -> str:  # noqa: ANN401 - whatever a log says
    return size(value) if name.endswith("_bytes") and isinstance(value, int) else said(value)


def _line(place: Mapping[str, Any] | None) -> str:
    return said((place or {}).get("line"))
