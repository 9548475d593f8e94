"""An answer of `/fit` as a person reads it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kvquote_client.cli import ledger
from kvquote_client.cli.figures import said, size, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kvquote_client.answers import Calibration, FitAnswer, LearnedPart, Quoted
    from kvquote_client.cli.screen import Screen

_LEVERS_SHOWN: Final = 5
_GOOD: Final = 32
_BAD: Final = 31
_WORDS: Final = {
    "weights": "the weights",
    "reserve": "the reserve",
    "kv_cache": "the KV cache",
    "context_limit": "the longest context",
    "sequence_limit": "the engine's own limit",
    "free_memory": "the memory that is free",
    "dtype": "a number format",
    "layout": "the layout",
}


def lines(answer: FitAnswer, screen: Screen, *, why: bool = False) -> list[str]:
    """All that is shown; `why` adds how it was come by."""
    return [
        heading(answer, screen),
        *understood(answer, screen),
        "",
        verdict(answer, screen),
        *_shortage(answer),
        "",
        *ledger.drawn(answer.ledger, screen, screen.text(_fullest(answer))),
        "",
        *_facts(answer),
        *_learned(answer.calibration, screen),
        *_levers(answer, screen),
        *notes(answer, screen, why=why),
    ]


def heading(answer: Quoted, screen: Screen) -> str:
    """Which model on which GPU under which engine."""
    engine = " ".join(filter(None, (answer.engine.name, answer.engine.version)))
    under = "no engine, a textbook's arithmetic" if answer.engine.name == "none" else engine
    asked = answer.question or {}
    formats = f"weights in {said(asked.get('weight_dtype'))}, cache in {said(asked.get('kv_dtype'))}"
    return screen.text(f"{said(answer.model.name)} on {_devices(answer)}: {under}; {formats}")


def _devices(answer: Quoted) -> str:
    """The GPUs by their kinds, in the order in which they are listed, or their memory."""
    if answer.gpus:
        kinds = Counter(card.name for card in answer.gpus)
        return " + ".join(f"{count} × {said(name)}" for name, count in kinds.items())
    if answer.gpu:
        return f"{said(answer.gpu.count)} × {said(answer.gpu.name)}"
    listed = (answer.question or {}).get("gpus_memory_bytes")
    return " + ".join(map(size, listed)) if isinstance(listed, list) else f"{size(_memory(answer))} a GPU"


def _fullest(answer: FitAnswer) -> str:
    """The one of several GPUs that the ledger is of; empty where there is one."""
    count = (answer.question or {}).get("gpu_count") or 1
    if count == 1:
        return ""
    index, cards = answer.rank.index or 0, answer.gpus or ()
    kind = f", {cards[index].name}" if index < len(cards) and len({card.name for card in cards}) > 1 else ""
    return f"the GPU that fills first, number {index + 1} of a replica{kind}"


def understood(answer: Quoted, screen: Screen) -> list[str]:
    """What of an engine's command was understood, and what of it is no matter for memory."""
    command = answer.command
    if command is None:
        return []
    told = [f"  understood  {said(command.program)}: {changed(command.set or {}) or 'nothing but its name'}"]
    if command.ignored:
        told.append(f"  ignored     {said(command.ignored)}: no matter for memory")
    return [screen.text(line) for line in told]


def notes(answer: Quoted, screen: Screen, *, why: bool) -> list[str]:
    """What the answer warns of, and with `why` what it assumed and how it counted."""
    told = [f"warning: {warning}" for warning in answer.warnings]
    if why:
        told += ["", "assumed", *_indented(answer.assumptions), "", "counted", *_indented(answer.derivation)]
    return [screen.text(line) for line in told] if told else []


def changed(change: Mapping[str, Any]) -> str:
    """A change to the question, as its names and values."""
    return ", ".join(f"{name} {said(value)}" for name, value in change.items())


def verdict(answer: FitAnswer, screen: Screen) -> str:
    """Whether it fits, how many do, and what the limit is."""
    asked = answer.question or {}
    context = f"of {whole(asked.get('context_tokens'))} tokens"
    wanted = asked.get("batch_size") or 1
    if not answer.fits:
        words = f"{_sequences(wanted)} {context} {'does' if wanted == 1 else 'do'} not fit"
        found = f"; {whole(answer.max_sequences)} would" if answer.max_sequences else ""
        return screen.painted(words, _BAD) + found
    words = screen.painted(f"{_sequences(answer.max_sequences)} {context} fit", _GOOD)
    if answer.max_running_sequences != answer.max_sequences:
        words += f", {whole(answer.max_running_sequences)} run at once"
    return words + _stops_at(answer)


def _stops_at(answer: FitAnswer) -> str:
    missing = answer.binding.to_gain_one_sequence_bytes
    gain = f"; {size(missing)} more would hold one more" if missing else ""
    return f"; {_named(answer.binding.constraint)} is the limit{gain}"


def _shortage(answer: FitAnswer) -> list[str]:
    short = answer.shortage
    if short is None:
        return []
    there = f"{size(short.available_bytes)} there, {size(short.missing_bytes)} missing"
    told = [f"{_named(short.constraint)}: {size(short.needed_bytes)} needed, {there}"]
    if short.max_context_tokens:
        told.append(f"the longest context that would start: {whole(short.max_context_tokens)} tokens")
    if short.nearest_change:
        told.append(f"the nearest change that would do: {changed(short.nearest_change)}")
    return told


def _facts(answer: FitAnswer) -> list[str]:
    longest = answer.max_context_tokens
    reach = "none, however short" if longest == 0 else f"up to {whole(longest)} tokens"
    each = f"{size(answer.kv_bytes_per_token)} a token more, {size(answer.kv_bytes_per_sequence)} a sequence"
    told = [
        f"KV cache      {whole(answer.kv_capacity_tokens)} tokens, {each}",
        f"one sequence  {'as long as the model goes' if longest is None else reach}",
    ]
    if answer.roofline:
        told.append(f"compute-bound from batch {whole(answer.roofline.ridge_batch)} on, by weights alone")
    return told


def _learned(calibration: Calibration | None, screen: Screen) -> list[str]:
    """What measurements added to the catalog, and how far they lay apart."""
    return [screen.text(_taught(part)) for part in (calibration.learned if calibration else ())]


def _taught(part: LearnedPart) -> str:
    # What few probes measured is drawn toward the catalog, so that what is added may lie outside of the spread.
    spread = " to ".join(map(_signed, part.spread_bytes))
    behind = f"{whole(part.probes)} probes measured {spread} in {whole(part.measurements)} rows, {said(part.rung)}"
    return f"learned       {said(part.quantity)} {_signed(part.beyond_catalog_bytes)}: {behind}"


def _signed(count: int | None) -> str:
    return size(None) if count is None else f"{'-' if count < 0 else '+'}{size(abs(count))}"


def _levers(answer: FitAnswer, screen: Screen) -> list[str]:
    shown = answer.levers[:_LEVERS_SHOWN]
    if not shown:
        return []
    rows = [[changed(lever.change), whole(lever.max_sequences), f"+{whole(lever.gain)}"] for lever in shown]
    return ["", *screen.table(["to hold more", "sequences", "gain"], rows)]


def _memory(answer: Quoted) -> int | None:
    memory = (answer.question or {}).get("memory_bytes")
    return memory if isinstance(memory, int) else None


def _named(constraint: str) -> str:
    return _WORDS.get(constraint, said(constraint))


def _sequences(number: int) -> str:
    return f"{whole(number)} sequence{'' if number == 1 else 's'}"


def _indented(texts: Iterable[str]) -> list[str]:
    return [f"  {text}" for text in texts]
