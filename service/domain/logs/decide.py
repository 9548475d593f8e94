"""From all that was heard of a start to what it says: one value of each name, or none and the reason.

A value is left out rather than guessed. Figures of ranks are put together as the engines do: the smallest cache
decides, and every other figure is that of the rank that has it; for either, all ranks must have spoken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from . import coherence
from .forms import Value
from .lines import Process
from .starts import Heard, Start
from .words import OF_A_RANK, OF_THE_ENGINE, LeftOut, Rank, Said

_OF_A_REPLICA = frozenset({"kv_capacity_tokens", "blocks", "max_concurrency"})
_DERIVED = frozenset({"version", *OF_THE_ENGINE, *OF_A_RANK})

_COUNTED = ("_bytes", "_tokens", "blocks", "_concurrency", "_limit", "_layers", "_slots")
_GREATEST = 1 << 50

Spoken = dict[Process, dict[str, Heard]]


class Decision:
    """What a start says; `said` by our names, `ranks` each rank's own, and what was left out."""

    def __init__(self, start: Start) -> None:
        contradiction = coherence.contradiction(start)
        coherence.drop_what_may_be_of_another(start)
        start.grammar.settle(start)
        self.start = start
        self.left_out: list[LeftOut] = []
        self.said: dict[str, Said] = {}
        self.ranks: list[Rank] = []
        self.mixed = contradiction
        self.spoken = self._spoken()
        self.mixed = self.mixed or self._too_many_ranks() or start.grammar.mixed(start)
        if self.mixed:
            self._leave_out_everything()
        else:
            self._take_engine()
            self._take_ranks()
            self.ranks = self._ranks()
            self._doubt_what_overlaps()
        said = set(self.said) | {name for rank in self.ranks for name in rank.said}
        self.left_out += [each for each in start.left_out if not set(each.what.split(", ")) <= said]
        if start.version() is not None and not self.mixed:
            self.left_out = [each for each in self.left_out if each.what != "version"]

    def _spoken(self) -> Spoken:
        """One value for each process and name."""
        spoken: Spoken = {}
        twice = _labels_of_two(self.start.heard)
        for process, heard in self.start.heard.items():
            if (process.label, process.source) in twice:
                self._leave_out_all(heard, f"two processes of one start are called {process.label}")
                continue
            kept = self._of_process(process, self._attributable(process, heard))
            if kept:
                spoken[process] = kept
        return spoken

    def _attributable(self, process: Process, heard: dict[str, list[Heard]]) -> dict[str, list[Heard]]:
        """What a process without a name says, as far as those with names do not say such things."""
        if process.label:
            return heard
        grammar = self.start.grammar
        labels = [other.label for other in self.start.heard if other.label]
        ranks = any(label.startswith(grammar.labelled) for label in labels)
        of_engine = grammar.labelled if grammar.engine_labels is None else grammar.engine_labels
        engines = any(label.startswith(of_engine) for label in labels)
        # The first line of a piece of a log may have lost the name that it began with.
        named = bool(grammar.labelled) and any(other.label for other in self.start.heard)
        lost = {
            name: times
            for name, times in heard.items()
            if (ranks if name in OF_A_RANK else engines) or (named and times[0].line == 1)
        }
        self._leave_out_all(lost, "the line does not say which process wrote it, where others do")
        return {name: times for name, times in heard.items() if name not in lost}

    def _of_process(self, process: Process, names: Mapping[str, list[Heard]]) -> dict[str, Heard]:
        kept: dict[str, Heard] = {}
        for name, times in names.items():
            heard, reason = self._one(name, times)
            if heard is not None and _is_impossible(name, heard.value):
                heard, reason = None, "no device and no cache has such a size"
            if heard is not None:
                kept[name] = heard
            elif name in _DERIVED:
                if name in self.start.grammar.core and "differ" in reason:
                    self.mixed = f"{process.label or 'a process without a name'} says two things of {name}"
                self.left_out.append(LeftOut(name, reason, times[-1].line))
        return kept

    def _too_many_ranks(self) -> str:
        """Whether more processes say what ranks say than the settings start."""
        world, replicas = self.start.world(), self.start.grammar.replicas(self.start)
        grammar = self.start.grammar
        engines = grammar.engine_labels or ("an engine",)
        ranks = [
            process
            for process, names in self.spoken.items()
            if any(name in OF_A_RANK for name in names)
            or (process.label.startswith(grammar.labelled) and not process.label.startswith(engines))
        ]
        if world is None or replicas is None:
            return ""
        beyond = [process.label for process in ranks if (process.rank or 0) >= world * replicas]
        if beyond:
            return f"{beyond[0]} is no rank of the {world * replicas} that the settings start"
        if len(ranks) <= world * replicas:
            return ""
        return f"{len(ranks)} processes speak as ranks, of {world * replicas} that the settings start"

    def _doubt_what_overlaps(self) -> None:
        """Nothing is sure where an earlier start without names may go on and some of this one does not fit together."""
        nameless = any(not process.label for process in self.spoken)
        doubtful = self.start.grammar.nameless or (
            nameless and (self.left_out or self.start.left_out or self.start.refusals)
        )
        if self.start.overlaps and doubtful:
            self.mixed = "an earlier one was not seen to its end, and no line says which of them it is of"
            self.said, self.ranks = {}, []
            self._leave_out_everything()

    def _leave_out_everything(self) -> None:
        reason = f"two starts are mixed: {self.mixed}"
        everything = [pair for names in self.spoken.values() for pair in names.items()]
        lines = {name: said.line for name, said in self.start.settings_said().items()}
        lines |= {name: heard.line for name, heard in everything if name in _DERIVED}
        self.left_out += [LeftOut(name, reason, line) for name, line in lines.items()]
        self.spoken = {}

    def _one(self, name: str, times: list[Heard]) -> tuple[Heard | None, str]:
        sure = sorted((heard for heard in times if heard.sure), key=lambda heard: heard.rounding)
        if not sure:
            return self._confirmed(name, times)
        finest = sure[0]
        others = [
            heard for heard in times if not (_alike(heard, finest) or (not heard.sure and _is_cut(heard, finest)))
        ]
        if others:
            return None, f"the values differ: {_listed({finest.value, *(heard.value for heard in others)})}"
        return finest, ""

    def _confirmed(self, name: str, times: list[Heard]) -> tuple[Heard | None, str]:
        """A value at the end of a line was not cut where a printed setting is the same."""
        printed = self._printed(name)
        for heard in times:
            if heard.value in printed:
                return heard, ""
        return None, "it stands at the end of a line that may be cut, and no other line confirms it"

    def _printed(self, name: str) -> set[object]:
        return {self.start.setting(printed) for printed, ours in self.start.grammar.settings.items() if ours == name}

    def _leave_out_all(self, names: Mapping[str, list[Heard]], reason: str) -> None:
        self.left_out += [LeftOut(name, reason, times[-1].line) for name, times in names.items() if name in _DERIVED]

    def _take_engine(self) -> None:
        for name, said in self.start.settings_said().items():
            self.said[name] = said
        for name in OF_THE_ENGINE:
            spoken = {process: names[name] for process, names in self.spoken.items() if name in names}
            if spoken and name not in self.said:
                self._take_of_engine(name, spoken)

    def _take_of_engine(self, name: str, spoken: Mapping[Process, Heard]) -> None:
        by_replica: dict[int | None, set[Value]] = {}
        for process, heard in spoken.items():
            by_replica.setdefault(process.replica, set()).add(heard.value)
        values = {heard.value for heard in spoken.values()}
        wanted = self.start.layout_of("data_parallel")
        numbered = any(process.replica is not None for process in spoken)
        if any(len(alike) > 1 for alike in by_replica.values()) or (len(values) > 1 and name not in _OF_A_REPLICA):
            self._leave_out(name, spoken, f"the values differ: {_listed(values)}")
        elif name in _OF_A_REPLICA and not self.start.grammar.synced and self._missing(name, spoken):
            self._leave_out(name, spoken, str(self._missing(name, spoken)))
        elif name in _OF_A_REPLICA and (numbered or (wanted or 1) > 1) and len(by_replica) != wanted:
            of_all = f"{len(by_replica)} of {wanted or 'an unknown number of'} replicas"
            self._leave_out(name, spoken, f"{of_all} said it, and the smallest would hold")
        else:
            process = min(spoken, key=lambda each: (_ordered(spoken[each].value), each.label))
            self.said[name] = _said(spoken[process], process)

    def _take_ranks(self) -> None:
        limiting = self._limiting()
        for name in OF_A_RANK:
            spoken = {process: names[name] for process, names in self.spoken.items() if name in names}
            if spoken:
                self._take_of_rank(name, spoken, limiting)

    def _take_of_rank(self, name: str, spoken: Mapping[Process, Heard], limiting: Process | None) -> None:
        values = {heard.value for heard in spoken.values()}
        missing = self._missing(name, spoken)
        if missing:
            self._leave_out(name, spoken, missing)
        elif len(values) == 1 or limiting in spoken:
            process = limiting if limiting is not None and limiting in spoken else next(iter(spoken))
            self.said[name] = _said(spoken[process], process)
        else:
            self._leave_out(name, spoken, f"the ranks differ, and which of them limits is not said: {_listed(values)}")

    def _limiting(self) -> Process | None:
        caches = {
            process: names["kv_cache_bytes"] for process, names in self.spoken.items() if "kv_cache_bytes" in names
        }
        if not caches or self._missing("kv_cache_bytes", caches, first_is_enough=False):
            return None
        return min(caches, key=lambda each: (_ordered(caches[each].value), each.label))

    def _missing(self, name: str, spoken: Mapping[Process, Heard], *, first_is_enough: bool = True) -> str | None:
        """Why what these ranks say does not stand for all; None where it does."""
        start, world = self.start, self.start.world()
        replicas = start.grammar.replicas(start)
        ranks = None if world is None or replicas is None else world * replicas
        if ranks is None:
            devices = len(start.grammar.devices(start))
            if devices > 1:
                return f"each of the {devices} devices has its own; see what each says"
            only = next(iter(spoken))
            one_replica = only.replica is None or replicas == 1
            if len(spoken) == 1 and one_replica and start.grammar.alone(start, only):
                return None
            return "how many ranks there are is not said; see what each says"
        if len(spoken) == ranks:
            return None
        if (
            first_is_enough
            and len(spoken) == 1
            and next(iter(spoken)).rank == 0
            and start.grammar.said_by_first(start, name)
        ):
            return None
        return f"{len(spoken)} of {ranks} ranks said it; see what each says"

    def _leave_out(self, name: str, spoken: Mapping[Process, Heard], reason: str) -> None:
        self.left_out.append(LeftOut(name, reason, next(iter(spoken.values())).line))

    def _ranks(self) -> list[Rank]:
        return [
            Rank(
                process.label or "the only process that names none",
                process.rank,
                process.replica,
                {
                    name: _said(heard, process)
                    for name, heard in names.items()
                    if name in OF_A_RANK or name in _OF_A_REPLICA
                },
            )
            for process, names in sorted(
                self.spoken.items(), key=lambda item: (item[0].source, len(item[0].label), item[0].label)
            )
            if any(name in OF_A_RANK or (process.label and name == "kv_capacity_tokens") for name in names)
        ]


def _labels_of_two(processes: Iterable[Process]) -> frozenset[tuple[str, str]]:
    """Labels that two processes have."""
    seen: dict[tuple[str, str], str] = {}
    twice = set()
    for process in processes:
        key = (process.label, process.source)
        if seen.setdefault(key, process.pid) != process.pid:
            twice.add(key)
    return frozenset(twice)


def _is_impossible(name: str, value: Value) -> bool:
    return name.endswith(_COUNTED) and isinstance(value, (int, float)) and not 0 <= value <= _GREATEST


def _alike(heard: Heard, other: Heard) -> bool:
    """Whether two printed values may be of the same figure, each with as many digits as it has."""
    if heard.value == other.value or isinstance(heard.value, str) or isinstance(other.value, str):
        return heard.value == other.value
    return abs(heard.value - other.value) <= heard.rounding + other.rounding


def _is_cut(heard: Heard, sure: Heard) -> bool:
    """Whether a value at the end of a line is the other one, or its beginning."""
    return str(sure.value).startswith(str(heard.value))


def _said(heard: Heard, process: Process) -> Said:
    return Said(heard.value, heard.line, process.label or None, heard.rounding)


def _ordered(value: Value) -> float:
    return float(value) if isinstance(value, (int, float)) else 0.0


def _listed(values: Iterable[Value]) -> str:
    shown = sorted(str(value)[:40] for value in values)
    return ", ".join(shown[:4]) + (" …" if len(shown) > 4 else "")  # noqa: PLR2004
