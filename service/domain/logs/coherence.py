"""What shows that lines of two starts are mixed: an engine goes through its steps in one order, and ends once."""

from __future__ import annotations

from .starts import CAPACITY, Start
from .versions import before

_GRAPHS = "graph_bytes"
_LAST = frozenset({_GRAPHS})
"""What an engine says last, so that one before it may not have said it yet."""
_AFTER_A_CACHE = (*(name for name in CAPACITY if name not in {"kv_cache_bytes", "blocks"}), "max_concurrency", _GRAPHS)
"""What no engine says that found no room for its cache."""
_AFTER_LOADING = ("weight_bytes", "activation_bytes", *CAPACITY, _GRAPHS)
"""What no engine says that found too little memory free before it loaded anything."""


def contradiction(start: Start) -> str:
    """Why the lines cannot all be of one start; empty where they may. To be asked before they are settled."""
    return _two_processes(start) or _out_of_order(start) or _goes_on(start) or _two_ends(start)


def _two_processes(start: Start) -> str:
    for (label, _), pids in start.writers.items():
        if len(pids) > 1 and not label.startswith("APIServer"):
            return f"two processes of one start are called {label}"
    return ""


def _out_of_order(start: Start) -> str:
    """Whether a process says what comes later before what comes earlier."""
    marks: dict[str, list[tuple[str, int]]] = {}
    for (mark, label), line in start.marks.items():
        marks.setdefault(label, []).append((mark, line))
    for said in marks.values():
        latest = 0
        for step in start.grammar.order:
            lines = [line for mark, line in said if any(mark.startswith(s) for s in step)]
            if lines and min(lines) < latest:
                return f"line {min(lines):,} comes behind what an engine prints later"
            latest = max([latest, *lines])
    return ""


def _goes_on(start: Start) -> str:
    """Whether an engine that gave up says what only one says that went on."""
    for refusal in start.refusals:
        beyond = {"kv_cache": _AFTER_A_CACHE, "free_memory": _AFTER_LOADING}.get(refusal.kind, ())
        if any(heard.line != refusal.line for name in beyond for _, heard in start.values(name)):
            return "an engine that had given up goes on"
        if any(start.latest.get(label, 0) > refusal.line for label in _gave_up(start, refusal.line)):
            return "a process goes on that had given up"
        made = [heard.line for name in (*CAPACITY, *_AFTER_A_CACHE) for _, heard in start.values(name)]
        if max(made, default=0) > refusal.line:
            return "a cache was made after the engine had given up"
    return ""


def _gave_up(start: Start, line: int) -> list[str]:
    return [label for (_, label), first in start.marks.items() if first == line]


def _two_ends(start: Start) -> str:
    """Whether an engine gives up for two reasons, or for one that its other lines contradict."""
    if len({refusal.kind for refusal in start.refusals}) > 1:
        return "an engine gives up for two reasons"
    for refusal in start.refusals:
        room = [heard for _, heard in start.values("kv_cache_bytes")]
        had = refusal.available_bytes
        if refusal.kind == "kv_cache" and had is not None and room:
            apart = min(abs(float(heard.value) - had) - 2 * heard.rounding for heard in room)
            if apart > 0 and float(room[0].value) > 0:
                return "an engine gives up for a cache that it does not have"
    return ""


def drop_what_may_be_of_another(start: Start) -> None:
    """Leave out what a start before may have said that may still go on among these lines.

    That is what this release does not print, and what an engine says last, of processes that have no name.
    """
    version = start.version()
    for process, names in start.heard.items() if start.overlaps else ():
        if process.label:
            continue
        for name, times in list(names.items()):
            kept = [heard for heard in times if name not in _LAST and _is_printed(heard.since, heard.until, version)]
            if len(kept) < len(times):
                start.leave_out(name, "it may be of an earlier start, which was not seen to its end", times[0].line)
                names[name] = kept
            if not kept:
                del names[name]


def _is_printed(since: str, until: str | None, version: str | None) -> bool:
    return before(version, since) is not True and (
        until is None or version is None or before(until, version) is not True
    )
