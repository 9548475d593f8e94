"""A log's starts: what is heard between the line that begins one and the line that begins the next."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from .forms import Form, Found, Value
from .grammar import Grammar
from .lines import Line, Process, writer
from .settings import Settings, parse
from .words import OF_A_RANK, TEXTS, LeftOut, Refusal, Said

_MOST_PROCESSES = 1024
_MOST_TIMES = 64
_MOST_VALUES = 2048
_MOST_PRINTED = 16
_LONGEST_KEPT = 1 << 16
_GREATEST = 1 << 50
_NAMES_OF_A_LAYOUT = 3
_MOST_LEFT_OUT = 200
_DIGIT = re.compile("[0-9]")
CAPACITY = ("kv_capacity_tokens", "kv_cache_bytes", "blocks", "batch_total_tokens")


class Heard(NamedTuple):
    """A value as it was said once; `sure` is false where a cut line would have looked the same.

    `since` and `until` are the releases whose line it is.
    """

    value: Value
    rounding: float
    line: int
    column: int
    sure: bool
    since: str = ""
    until: str | None = None


class Printed:
    """Settings that a process printed: `args` as they were given, `config` as the engine resolved them.

    They are read when they are first asked for: of very many starts only the last is.
    """

    __slots__ = ("_settings", "kind", "line", "process", "text")

    def __init__(self, kind: str, text: str, line: int, process: Process) -> None:
        self.kind, self.text, self.line, self.process = kind, text, line, process
        # A text that is long for no reason is not kept.
        self._settings: Settings | None = None
        if len(text) > _LONGEST_KEPT:
            self._settings, self.text = parse(text), ""

    @property
    def settings(self) -> Settings:
        """The plain values of the list."""
        if self._settings is None:
            self._settings = parse(self.text)
            self.text = ""
        return self._settings


@dataclass
class Start:
    """What was heard of one start."""

    grammar: Grammar
    begins: int
    ends: int = 0
    heard: dict[Process, dict[str, list[Heard]]] = field(default_factory=dict)
    printed: list[Printed] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    marks: dict[tuple[str, str], int] = field(default_factory=dict)
    """What was printed by whom, and first in which line."""
    writers: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The numbers of the processes that a label has, in a container."""
    bare: bool = False
    """Whether nothing at all stands before what some line says."""
    latest: dict[str, int] = field(default_factory=dict)
    """The last line of each label that says anything but that the engine gives up."""
    began: bool = False
    overlaps: bool = False
    """Whether a start before it was not seen to its end, so that some lines may be of that."""
    _room: int = _MOST_VALUES
    superseded: set[str] = field(default_factory=set)
    """Names whose printed settings hold no more, since a later line says what was chosen."""
    _said: tuple[int, Mapping[str, Said]] | None = None
    """How many lists were printed when their settings were last put together, and what came of it."""
    drafting: bool = False
    drafted: set[tuple[str, str]] = field(default_factory=set)
    """What was printed of a draft model, and by whom."""

    @property
    def complete(self) -> bool:
        """Whether it says what the cache holds, or why there is none."""
        return bool(self.refusals) or any(name in names for names in self.heard.values() for name in CAPACITY)

    @property
    def size(self) -> int:
        """How many values it has."""
        return sum(map(len, self.heard.values())) + len(self.printed) + len(self.refusals)

    def add(self, process: Process, name: str, heard: Heard) -> None:
        """Keep a value; the first and the last of very many."""
        names = self.heard.get(process)
        if names is None:
            if len(self.heard) >= _MOST_PROCESSES:
                self.warn("More processes write into this log than are told apart; some were not heard.")
                return
            names = self.heard[process] = {}
        times = names.setdefault(name, [])
        if len(times) < _MOST_TIMES and self._room:
            times.append(heard)
            self._room -= 1
        elif not times:
            self.warn("More values stand in this start than are kept apart; some were not heard.")
            del names[name]
        else:
            times[-1] = heard

    def wrote(self, process: Process, line: int, *, refusing: bool) -> None:
        """Keep which process it was."""
        key = (process.label, process.source)
        if key in self.writers or len(self.writers) < _MOST_PROCESSES:
            self.writers.setdefault(key, set()).add(process.pid)
            if not refusing:
                self.latest[process.label] = line

    def ended(self) -> bool:
        """Whether it was seen to its last step, or to give up."""
        last = self.grammar.order[-1] if self.grammar.order else ()
        if self.refusals:
            return True
        # Ranks without names all take the last step.
        taken = sum(1 for process, _ in self.values("graph_bytes") if not process.label)
        return any(mark.startswith(last) for mark, label in self.marks if not label) and not (
            0 < taken < (self.world() or 1)
        )

    def warn(self, sentence: str) -> None:
        """Say once what holds for the whole start."""
        if sentence not in self.warnings:
            self.warnings.append(sentence)

    def leave_out(self, what: str, reason: str, line: int | None = None) -> None:
        """Say what is not taken."""
        if len(self.left_out) < _MOST_LEFT_OUT:
            self.left_out.append(LeftOut(what, reason, line))

    def values(self, name: str) -> Iterator[tuple[Process, Heard]]:
        """Everything heard under a name, by whom."""
        for process, names in self.heard.items():
            for heard in names.get(name, ()):
                yield process, heard

    def setting(self, name: str) -> object:
        """A printed setting by the engine's own name; what the engine resolved goes before what was given."""
        for printed in self._in_order():
            value = printed.settings.values.get(name)
            if value is not None:
                return value
        return None

    def supersede(self, name: str) -> None:
        """Take no printed setting for a name any more."""
        self.superseded.add(name)
        self._said = None

    def settings_said(self) -> Mapping[str, Said]:
        """Printed settings in our words; those that two lists print differently are left out."""
        if self._said is None or self._said[0] != len(self.printed):
            self._said = len(self.printed), self._settings_said()
        return self._said[1]

    def _settings_said(self) -> dict[str, Said]:
        said: dict[str, Said] = {}
        for printed in self._in_order():
            for theirs, ours in self.grammar.settings.items():
                value = printed.settings.values.get(theirs)
                if value is not None and ours not in self.superseded and _means(ours, value):
                    said.setdefault(ours, Said(value, printed.line, printed.process.label or None))
        given = [printed for printed in self.printed if printed.kind == "args" and printed.settings.whole]
        if given and (not self.grammar.resolves or any(printed.kind == "config" for printed in self.printed)):
            for ours, value in self.grammar.absent.items():
                said.setdefault(ours, Said(value, given[-1].line, given[-1].process.label or None))
        return said

    def _in_order(self) -> list[Printed]:
        return sorted(self.printed, key=lambda printed: (printed.kind != "config", -printed.line))

    def version(self) -> str | None:
        """The release, where a line that is whole says it."""
        found = {str(heard.value) for _, heard in self.values("version") if heard.sure}
        return found.pop() if len(found) == 1 else None

    def layout_of(self, name: str) -> int | None:
        """A size of the layout, where the settings say it: 1 where a list goes on that would have named it by then."""
        said = self.settings_said().get(name)
        if said is not None and isinstance(said.value, int):
            return said.value
        return 1 if any(self._goes_on(printed) for printed in self.printed) else None

    def _goes_on(self, printed: Printed) -> bool:
        """Whether a list of resolved settings goes on behind its layout."""
        names = list(printed.settings.values)
        layout = [at for at, name in enumerate(names) if self.grammar.settings.get(name) == "tensor_parallel"]
        return printed.kind == "config" and bool(layout) and len(names) > layout[0] + _NAMES_OF_A_LAYOUT

    def world(self) -> int | None:
        """Ranks of a replica; None where the settings do not say."""
        tensor, pipeline = self.layout_of("tensor_parallel"), self.layout_of("pipeline_parallel")
        return None if tensor is None or pipeline is None else tensor * pipeline

    def nameless_lines(self) -> int:
        """How many lines have no name, whatever they say; the first of a log may have lost its own."""
        return len({line for (_, label), line in self.marks.items() if not label and line > 1})

    def speaks_twice(self, process: Process, *, first: int = 2) -> bool:
        """Whether what only ranks say stands in several lines without a name; one may have lost the name it had.

        So may the first line of a log, which does not count but where a prefix proves that it is whole.
        """
        names = self.heard.get(process, {})
        return len({heard.line for name in OF_A_RANK for heard in names.get(name, ()) if heard.line >= first}) > 1

    def alone_somewhere(self) -> bool:
        """Whether a process that is the only rank, by its own name, says what only ranks do."""
        return any(
            self.grammar.alone(self, process)
            for process, names in self.heard.items()
            if any(name in OF_A_RANK for name in names)
        )


class Listener:
    """Hears the lines of one engine from one container, and keeps the last complete start and the present one."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.starts = 0
        self.present: Start | None = None
        self.complete: Start | None = None
        self._forms = grammar.by_literal()

    def hear(self, line: Line, literals: Iterable[str]) -> None:
        """Take what a line says that holds these texts, or say that it cannot be read."""
        taken = [self._take(line, literal) for literal in literals]
        worth = self.grammar.worth
        if not any(taken) and (not worth or any(word in line.text for word in worth)):
            names = [name for literal in literals for form in self._forms[literal] for name in form.names]
            if names:
                what = ", ".join(dict.fromkeys(names))
                reason = "the line is cut, or written in a way that is not known"
                self._start(line.number).leave_out(what, reason, line.number)

    def chosen(self) -> Start | None:
        """The last complete start, or what there is of one."""
        present = self.present
        if present is None or present.complete:
            return present
        return self.complete or present

    def _take(self, line: Line, literal: str) -> bool:
        at = line.text.index(literal)
        for form in self._forms[literal]:
            found = form.read(line.text, at)
            if found is not None:
                self._heed(line, writer(line.text[:at], line.source), literal, form, found)
                return True
        return False

    def _heed(self, line: Line, process: Process | None, literal: str, form: Form, found: list[Found]) -> None:
        start = self._start(line.number, (literal, process.label if process else ""))
        start.ends = line.number
        if process is None:
            start.leave_out(", ".join(form.names), "the beginning of the line is cut", line.number)
            return
        start.wrote(process, line.number, refusing=bool(form.refuses))
        start.bare = start.bare or _is_bare(line.text[: line.text.index(literal)])
        if form.refuses:
            start.refusals.append(_refusal(form.refuses, line.number, found))
            del start.refusals[:-_MOST_TIMES]
        if self._is_of_a_draft(start, literal):
            _leave_to_the_draft(start, found, line.number)
            return
        writing = _of_device(process, found)
        for each in found:
            if each.name != "device" and not (form.refuses and each.name in Refusal._fields):
                self._add(start, writing, each, line, form)

    def _is_of_a_draft(self, start: Start, literal: str) -> bool:
        if start.drafting:
            return True
        start.drafting = literal in self.grammar.drafting
        if literal in self.grammar.drafting_within:
            start.drafted.update(start.marks)
        return False

    def _add(self, start: Start, process: Process, found: Found, line: Line, form: Form) -> None:
        if found.name in {"args", "config"}:
            if len(start.printed) < _MOST_PRINTED:
                start.printed.append(Printed(found.name, str(found.value), line.number, process))
            return
        sure = line.whole or not found.open
        start.add(
            process,
            found.name,
            Heard(found.value, found.rounding, line.number, found.column, sure, form.since, form.until),
        )

    def _start(self, number: int, mark: tuple[str, str] | None = None) -> Start:
        present = self.present
        if present is None or (mark is not None and self._begins(present, mark)):
            if present is not None and present.complete:
                self.complete = present
            self.starts += 1
            overlaps = present is not None and (present.overlaps or not present.ended())
            present = self.present = _next_start(self.grammar, number, present)
            present.overlaps = overlaps
        if mark is not None and present.drafting:
            present.drafted.add(mark)
        elif mark is not None:
            present.marks.setdefault(mark, number)
            present.began = present.began or mark[0] not in self.grammar.opening | self.grammar.reopening
        return present

    def _begins(self, present: Start, mark: tuple[str, str]) -> bool:
        literal = mark[0]
        if literal in self.grammar.reopening:
            return present.complete
        if literal in self.grammar.opening:
            return present.began or mark in present.marks
        # A draft model is named once more than the model that it drafts for.
        return literal in self.grammar.naming and mark in (present.drafted if present.drafting else present.marks)


def _of_device(process: Process, found: list[Found]) -> Process:
    """The process as one of the device that a line names, whose number is the rank; itself where it names none."""
    device = next((str(each.value) for each in found if each.name == "device"), None)
    if device is None:
        return process
    digits = device[len(device.rstrip("0123456789")) :]
    return process._replace(label=device, rank=int(digits) if digits else None)


def _leave_to_the_draft(start: Start, found: list[Found], number: int) -> None:
    for each in found:
        if each.name in OF_A_RANK:
            start.leave_out(each.name, "it is of the draft model", number)


def _is_bare(head: str) -> bool:
    """Whether neither a time nor the engine's name is left of what stands before a message."""
    if "-LLM]" in head or _DIGIT.search(head):
        return False
    return head.isascii() or not any(sign.isdigit() for sign in head)


def _means(name: str, value: Value) -> bool:
    """Whether a printed setting is a value of ours: numbers where ours are, and words only where ours are."""
    if isinstance(value, bool) or value == "auto":
        return False
    if isinstance(value, str):
        return name in TEXTS
    return name not in TEXTS and 0 < value <= _GREATEST


def _next_start(grammar: Grammar, number: int, before: Start | None) -> Start:
    """A start, with what an earlier one said for all."""
    start = Start(grammar, number, number)
    for process, names in before.heard.items() if before and grammar.kept else ():
        kept = {name: times for name, times in names.items() if name in grammar.kept}
        if kept:
            start.heard[process] = kept
    return start


def _refusal(kind: str, line: int, found: list[Found]) -> Refusal:
    return Refusal(kind, line, **{each.name: int(each.value) for each in found if each.name in Refusal._fields})
