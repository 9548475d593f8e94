"""From the lines of a log to what it says; one pass, and no more kept than what was heard."""

from __future__ import annotations

from collections.abc import Iterable

from .decide import Decision
from .grammar import OUT_OF_MEMORY, Grammar
from .lines import Line, Unpacked
from .llama_cpp import LLAMA_CPP
from .lmdeploy import LMDEPLOY
from .ollama import OLLAMA
from .sglang import SGLANG
from .sifting import Numbered, Sifted
from .starts import Listener, Start
from .tensorrt_llm import TENSORRT_LLM
from .tgi import TGI
from .vllm import VLLM
from .words import NOTHING, LeftOut, LogReading

GRAMMARS: tuple[Grammar, ...] = (VLLM, SGLANG, TENSORRT_LLM, LLAMA_CPP, OLLAMA, TGI, LMDEPLOY)
ENGINES = tuple(grammar.engine for grammar in GRAMMARS)
"""The engines whose logs are read."""

LOOKED_FOR = {grammar.engine: tuple(dict.fromkeys(grammar.by_literal())) for grammar in GRAMMARS}
"""What lines of each engine are looked for by."""

_MOST_SOURCES = 16
_MOST_LEFT_OUT = 100


def read(lines: Iterable[str]) -> LogReading:
    """Read a log, whole or a piece of one; what cannot be told is left out, and no log makes it fail.

    Of several starts the last one counts that says what its cache holds or why there is none.
    """
    numbered = Numbered(lines)
    heard = _heard(Unpacked().lines(numbered))
    return _reading(heard, numbered.count) if heard else NOTHING._replace(lines=numbered.count)


def read_text(pieces: Iterable[str]) -> LogReading:
    """Read a log that comes in pieces, cut anywhere, as `read` does its lines; quick where few lines say anything."""
    unpacked = Unpacked()
    sifted = Sifted(pieces, _HINTS, unpacked.joins)
    heard = _heard(unpacked.lines(sifted))
    return _reading(heard, sifted.count) if heard else NOTHING._replace(lines=sifted.count)


def _heard(lines: Iterable[Line]) -> list[Listener]:
    listeners: dict[tuple[str, str], Listener] = {}
    for line in lines:
        for grammar, literals in _looked_for(line).values():
            _hear(listeners, grammar, line, literals)
    return [listener for listener in listeners.values() if _is_its_own(listener)]


def _by_hint() -> dict[str, tuple[tuple[Grammar, str], ...]]:
    """The texts that a line with a hint is looked through for, of each engine."""
    found: dict[str, list[tuple[Grammar, str]]] = {}
    for grammar in GRAMMARS:
        for hint in grammar.hints:
            found.setdefault(hint, []).extend((grammar, literal) for literal in grammar.by_literal() if hint in literal)
    return {hint: tuple(looked_for) for hint, looked_for in found.items()}


_HINTS = _by_hint()


def _looked_for(line: Line) -> dict[str, tuple[Grammar, dict[str, None]]]:
    """By engine, what a line holds of the texts that it is looked through for."""
    text = line.text
    found: dict[str, tuple[Grammar, dict[str, None]]] = {}
    for hint in _HINTS if line.hints is None else line.hints:
        if hint in text:
            for grammar, literal in _HINTS[hint]:
                if literal in text:
                    found.setdefault(grammar.engine, (grammar, {}))[1][literal] = None
    return found


def _hear(listeners: dict[tuple[str, str], Listener], grammar: Grammar, line: Line, literals: Iterable[str]) -> None:
    key = (grammar.engine, line.source)
    listener = listeners.get(key)
    if listener is None:
        if len(listeners) >= _MOST_SOURCES:
            return
        listener = listeners[key] = Listener(grammar)
    listener.hear(line, literals)


def _reading(heard: list[Listener], lines: int) -> LogReading:
    listener = max(heard, key=_weight)
    start = listener.chosen()
    assert start is not None  # noqa: S101  # those without were sorted out
    if len({each.grammar.engine for each in heard}) > 1:
        _drop_shared(start)
    decision = Decision(start)
    args = [printed for printed in start.printed if printed.kind == "args"]
    settings = (args or start.printed)[-1].settings if start.printed and not decision.mixed else None
    refusals = [] if decision.mixed else start.refusals
    return LogReading(
        engine=start.grammar.engine,
        version=None if decision.mixed else start.version(),
        said=decision.said,
        ranks=decision.ranks,
        settings=settings.values if settings else {},
        nested_settings=settings.nested if settings else {},
        settings_whole=bool(settings and settings.whole),
        refusal=refusals[-1] if refusals else None,
        starts=listener.starts,
        begins=start.begins,
        ends=start.ends,
        lines=lines,
        left_out=_told(decision.left_out),
        warnings=_warnings(heard, listener, start, decision.mixed),
        devices=() if decision.mixed else start.grammar.devices(start),
    )


def _is_its_own(listener: Listener) -> bool:
    """Whether more was heard of an engine than what several engines say in the same words."""
    start = listener.chosen()
    if start is None:
        return False
    shared = {"memory_bytes"} if start.refusals else set()
    shared_words = {name for form in OUT_OF_MEMORY for name in form.names}
    own = any(set(names) - shared for names in start.heard.values())
    left_out = any(not set(each.what.split(", ")) <= shared_words for each in start.left_out)
    return bool(own or start.printed or left_out or any(each.kind != "out_of_memory" for each in start.refusals))


def _drop_shared(start: Start) -> None:
    """Where several engines speak, what they say in the same words is nobody's."""
    lost = {refusal.line for refusal in start.refusals if refusal.kind == "out_of_memory"}
    start.refusals[:] = [refusal for refusal in start.refusals if refusal.line not in lost]
    for names in start.heard.values():
        times = [heard for heard in names.pop("memory_bytes", ()) if heard.line not in lost]
        if times:
            names["memory_bytes"] = times


def _weight(listener: Listener) -> tuple[bool, int, int]:
    start = listener.chosen()
    return (start.complete, start.size, start.ends) if start else (False, 0, 0)


def _told(left_out: list[LeftOut]) -> tuple[LeftOut, ...]:
    told = sorted(dict.fromkeys(left_out), key=lambda each: each.line or 0)
    if len(told) <= _MOST_LEFT_OUT:
        return tuple(told)
    more = len(told) - _MOST_LEFT_OUT
    return (*told[:_MOST_LEFT_OUT], LeftOut(f"{more} more", "a log that leaves out so much is listed in part", None))


def _warnings(heard: list[Listener], chosen: Listener, start: Start, mixed: str) -> tuple[str, ...]:
    found = list(start.warnings)
    if start.drafting:
        found.append("A draft model was started beside the model; what it takes is neither read nor quoted.")
    if mixed:
        found.append(f"Lines of two starts are mixed, so that nothing can be told: {mixed}.")
    if chosen.starts > 1:
        which = "The last complete one" if start is not chosen.present else "The last one"
        found.append(f"The log holds {chosen.starts} starts. {which} was read, from line {start.begins:,} on.")
    others = sorted({_named(other) for other in heard if other is not chosen and other.chosen()})
    if others:
        found.append(f"The log also holds lines of {', '.join(others)}; they were not read. {_named(chosen)} was.")
    return tuple(found)


def _named(listener: Listener) -> str:
    start = listener.chosen()
    sources = {process.source for process in start.heard if process.source} if start else set()
    return listener.grammar.engine + (f" in {', '.join(sorted(sources))}" if sources else "")
