"""Lines as the engine wrote them, and which of its processes did, whatever carried them here.

Containers and log shippers put their own words before a line, pack it into JSON, cut long ones into pieces, and mix
those of several processes. Engines' messages are looked for inside a line, so a prefix need not be known to be passed
over; here is only undone what changes the message itself, or tells processes apart.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

LONGEST = 1 << 20
"""Characters of a line that are looked at; what is longer is cut there."""

_PIECES = 64
_MESSAGES = ("log", "message", "msg", "MESSAGE", "line", "textPayload", "body")
# Runtimes cut at a fixed size; a shorter piece was cut once more, and what follows it is not its rest.
_LEAST_PIECE = 8000
_CRI = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]{8,24}(?:Z|[+-]\d\d:\d\d) (?P<stream>stdout|stderr) (?P<flag>[FP]) ")
ANSI = re.compile(r"(?:\x1b|#033)(?:\[[0-9;?]{0,24}[A-Za-z]|\][^\x07\x1b\n]{0,200}(?:\x07|\x1b\\))")
"""What colours a terminal, and names its window."""
_CONTAINER = re.compile(r"(?P<compose>[\w.-]{1,100}) {1,80}\| |\[pod/(?P<pod>[\w./-]{1,200})\] ", re.ASCII)
_REPEATED = re.compile(r" \[repeated \d{1,6}x across [^\]]{1,40}\].{0,400}\Z")


class Process(NamedTuple):
    """Who wrote a line: the engine's own name for the process, and the container it runs in, where told.

    `rank` counts within a replica, `replica` is the number of the engine among several.
    """

    label: str = ""
    pid: str = ""
    rank: int | None = None
    replica: int | None = None
    source: str = ""


class Line(NamedTuple):
    """A line without what carried it; `whole` says that its envelope proves that nothing of it was cut.

    `hints` are those of the texts looked for that it may hold, None where all of them may be.
    """

    text: str
    number: int
    whole: bool
    source: str
    hints: tuple[str, ...] | None = None


class _Pieces:
    """Long lines come in pieces; those of one stream are put together."""

    def __init__(self) -> None:
        self._open: dict[str, list[str]] = {}
        self._spoilt: set[str] = set()
        self._waiting = 0

    def bare(self, key: str, number: int) -> tuple[str, int] | None:
        """Note a short piece without an end; of two in a row the first is given back as a line, with its number.

        Runtimes cut at a fixed size alone: where short ones follow each other, a shipper took the ends off all lines.
        """
        held = self._open.get(key)
        before, self._waiting = self._waiting, number
        if not held or len(held[-1]) >= _LEAST_PIECE or key in self._spoilt:
            return None
        del self._open[key]
        return "".join(held), before

    @property
    def open(self) -> bool:
        """Whether the rest of a line is waited for."""
        return bool(self._open)

    def spoil(self, key: str) -> None:
        """Give up a line of which a piece is not whole."""
        self._open[key] = [""]
        self._spoilt.add(key)

    def joined(self, key: str, text: str, *, more: bool) -> str | None:
        """The line that ends with this piece; None where more is to come."""
        held = self._open.get(key)
        if more:
            if held is None and len(self._open) < _PIECES:
                held = self._open[key] = []
            if held is not None and sum(map(len, held)) < LONGEST:
                held.append(text)
            return None
        if held is None:
            return text
        del self._open[key]
        if key in self._spoilt:
            self._spoilt.discard(key)
            return None
        return "".join((*held, text))


class Unpacked:
    """Takes off what carried lines: each that an engine wrote, by the line it came in (the last, if in pieces)."""

    def __init__(self) -> None:
        self._pieces = _Pieces()
        self._bare = False
        self._freed: tuple[str, int] | None = None

    def joins(self) -> bool:
        """Whether the next line may be the rest of another."""
        return self._pieces.open

    def lines(self, numbered: Iterable[tuple[int, str, tuple[str, ...] | None]]) -> Iterator[Line]:
        """What of lines with their numbers, and what they may hold, was written by somebody."""
        for number, raw, hints in numbered:
            text: str | None = raw[:LONGEST].rstrip("\r\n").lstrip("\0\ufeff")
            whole = False
            if raw[:1] == "{":
                text, whole = self._from_json(raw, number)
                if self._freed is not None:
                    yield _cleaned(*self._freed, None, whole=True)
                    self._freed = None
            elif " std" in raw[:64]:
                text = self._from_cri(text or "")
            if text and not text.isspace():
                yield _cleaned(text, number, hints, whole=whole)

    def _from_json(self, raw: str, number: int) -> tuple[str | None, bool]:
        """The message in a JSON envelope, where it is complete: docker ends a complete one with its line's end."""
        message, name = _message(raw)
        if message is None:
            return raw[:LONGEST].rstrip("\r\n"), False
        more = name == "log" and not message.endswith("\n")
        if more and len(message) < _LEAST_PIECE:
            self._freed = None if self._bare else self._pieces.bare("json", number)
            self._bare = self._bare or self._freed is not None
            more = not self._bare
        return self._pieces.joined("json", message[:LONGEST].rstrip("\r\n"), more=more), True

    def _from_cri(self, text: str) -> str | None:
        found = _CRI.match(text)
        if found is None:
            return text
        message, more = text[found.end() :], found["flag"] == "P"
        if more and len(message) < _LEAST_PIECE:
            self._pieces.spoil(found["stream"])
            return None
        return self._pieces.joined(found["stream"], message, more=more)


def _message(raw: str) -> tuple[str | None, str]:
    try:
        value: dict[str, Any] = json.loads(raw)
    except (ValueError, RecursionError):
        return None, ""
    inner = value.get("fields")
    for holder in (value, inner) if isinstance(inner, dict) else (value,):
        name = next((name for name in _MESSAGES if isinstance(holder.get(name), str)), None)
        if name is not None:
            return holder[name], name if "stream" in holder else ""
    return None, ""


def _cleaned(text: str, number: int, hints: tuple[str, ...] | None, *, whole: bool) -> Line:
    if "\x1b" in text or "#033" in text:
        text = ANSI.sub("", text)
    source = ""
    if "|" in text[:200] or text.startswith("[pod/"):
        found = _CONTAINER.match(text)
        if found:
            source, text = found["compose"] or found["pod"], text[found.end() :]
    if text.endswith("]") or "[repeated " in text[-400:]:
        text = _REPEATED.sub("", text)
    return Line(text, number, whole, source, hints)


_VLLM = re.compile(
    r"\((?P<label>(?:Vllm)?Worker(?:Process|Proc)?(?:[_ ](?:rank=\d{1,5}|(?:(?:DP|PP|TP|EP|DCP|PCP)\d{1,5}_?){1,6}))?"
    r"|EngineCore(?:_(?:DP)?\d{1,5})?|APIServer(?:_\d{1,5})?|RayWorkerWrapper|RayWorkerProc|RayTrainWorker"
    r"|RayDistributedExecutor)(?: pid=(?P<pid>\d{1,10}))?(?:, ip=[\d.a-f:]{3,45})?\)",
    re.ASCII,
)
_SGLANG = re.compile(
    r"\[\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,6})?(?P<label>(?: (?:DP|PP|TP|EP|MOE_?EP|CP)\d{1,5}){1,5})\]"
    r"|\[gpu(?:_id)?=(?P<gpu>\d{1,5})\]",
    re.ASCII,
)
_MPI = re.compile(r"\[(?:RANK |rank ?|1,)(?P<rank>\d{1,5})\](?:<std(?:out|err)>:?)?", re.ASCII)
# What may stand between a process's name and its message: level, time, place in the code, the name of an error.
_BETWEEN = re.compile(
    r"[ \t:]{0,8}(?:\[[^\[\]]{1,60}\][ \t]{0,4}){0,4}(?:(?:INFO|DEBUG|WARNING|ERROR|I|W|E)\b[ \t]{0,4})?"
    r"(?:\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?[ \t]{1,4})?(?:\[?[\w/.-]{1,80}:\d{1,6}[\]:]?[ \t]{1,4})?"
    r"(?:[\w.]{1,60}(?:Error|Exception): )?(?:Engine \d{1,4}: )?\Z",
    re.ASCII,
)
_PLACES = re.compile(r"(?P<axis>DP|PP|TP)(?P<number>\d{1,5})", re.ASCII)
_NUMBERED = re.compile(r"(?:rank=|EngineCore_|APIServer_)(?P<number>\d{1,5})", re.ASCII)
_SOURCE = re.compile(r"[\w./-]{1,100}\.(?:py|go|cpp|cu|cc):\d{1,6}\]", re.ASCII)
_LEVEL = re.compile(r"\b(?:INFO|DEBUG|WARNING|ERROR|CRITICAL)\b", re.ASCII)
_CUT_TAG = re.compile(r"(?<!<std)(?:out|err)>:|^(?:ut|rr|t|r)?>:|^:", re.ASCII)
_LONGEST_HEAD = 4000
_CLOSERS = {")": "(", "]": "["}
_BRACKETS = re.compile(r"[()\[\]]")


def writer(head: str, source: str) -> Process | None:
    """Who wrote a line that begins with `head`; None where the head was cut inside such a name."""
    if (
        len(head) > _LONGEST_HEAD
        or not _balanced(head)
        or _CUT_TAG.search(head)
        or (".py:" in head and not _LEVEL.search(head))
    ):
        return None
    for sign, names, process in (
        (")", _VLLM, _vllm_process),
        ("]", _SGLANG, _sglang_process),
        ("]", _MPI, _mpi_process),
    ):
        found = _last(names, head) if sign in head else None
        if found is not None:
            return process(found, source) if _BETWEEN.match(head, found.end()) else None
    return Process(source=source)


def _last(names: re.Pattern[str], head: str) -> re.Match[str] | None:
    """The last name, since the line before may have lost its end."""
    found = None
    for found in names.finditer(head):  # noqa: B007  # the last one is kept
        pass
    return found


def _sglang_process(found: re.Match[str], source: str) -> Process:
    label = (found["label"] or f" gpu{found['gpu']}").strip()
    places = _places(label)
    return Process(label, "", places.get("TP", _whole(found["gpu"])), places.get("DP"), source)


def _mpi_process(found: re.Match[str], source: str) -> Process:
    return Process(f"rank {found['rank']}", "", int(found["rank"]), None, source)


def _vllm_process(found: re.Match[str], source: str) -> Process:
    label, pid = found["label"], found["pid"] or ""
    places = _places(label)
    numbered = _NUMBERED.search(label)
    number = int(numbered["number"]) if numbered else None
    if label.startswith(("EngineCore", "APIServer")):
        return Process(label, pid, None, places.get("DP", number), source)
    rank = places.get("TP", number) if not places.get("PP") else None
    if rank is None and not places:
        label = f"{label} pid={pid}"
    return Process(label, pid, rank, places.get("DP"), source)


def _places(label: str) -> dict[str, int]:
    return {found["axis"]: int(found["number"]) for found in _PLACES.finditer(label)}


def _whole(text: str | None) -> int | None:
    return None if text is None else int(text)


def _unless_opened(found: re.Match[str]) -> str:
    opened = found.string[: found.start()].endswith("[")
    return found[0] if opened else ""


def _balanced(head: str) -> bool:
    """Whether no bracket is closed that was never opened, as one is where the beginning of the line is missing."""
    if ")" not in head and "]" not in head:
        return True
    opened: list[str] = []
    # Loggers that write `module.py:123] ` open no bracket.
    for sign in _BRACKETS.findall(_SOURCE.sub(_unless_opened, head[:400])):
        if sign in "([":
            opened.append(sign)
        elif not opened or opened.pop() != _CLOSERS[sign]:
            return False
    return True
