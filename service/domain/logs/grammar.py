"""What is known of one engine's log: its lines, which of them begin a start, and how its values belong together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .forms import Form, Value, form

if TYPE_CHECKING:
    from .lines import Process
    from .starts import Start


OUT_OF_MEMORY = (
    form(
        "CUDA out of memory. Tried to allocate {needed_bytes:size}. GPU {:word} has a total capacity of"
        " {memory_bytes:size} of which {available_bytes:size} is free.{*}",
        "torch 2.2",
        "torch's own words",
        refuses="out_of_memory",
    ),
    form(
        "CUDA out of memory. Tried to allocate {needed_bytes:size} (GPU {:word}; {memory_bytes:size} total capacity;"
        " {:size} already allocated; {available_bytes:size} free;{*}",
        "torch 1.0",
        "torch's own words",
        "torch 2.1",
        refuses="out_of_memory",
    ),
)
"""A refusal of the framework that three engines share."""


def _nothing(_start: Start) -> None:
    """An engine whose lines say all by themselves."""


def _never(_start: Start, _name: str) -> bool:
    return False


def _replicas(start: Start) -> int | None:
    return start.layout_of("data_parallel")


def _unnamed(_start: Start) -> tuple[str, ...]:
    return ()


def _unmixed(_start: Start) -> str:
    return ""


@dataclass(frozen=True)
class Grammar:
    """One engine.

    `hints` are short texts of which every line of interest has one. Values under a name of `settings` are the printed
    settings' in our words. `opening` lines come before all others of a start, `naming` ones once from each process.
    """

    engine: str
    hints: tuple[str, ...]
    forms: tuple[Form, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    opening: frozenset[str] = frozenset()
    naming: frozenset[str] = frozenset()
    reopening: frozenset[str] = frozenset()
    """Lines that begin a start where the one before has said what its cache holds."""
    kept: frozenset[str] = frozenset()
    """What is said once for all starts."""
    settle: Callable[[Start], None] = _nothing
    """Puts together what several lines say of one value, before anything is decided."""
    order: tuple[tuple[str, ...], ...] = ()
    """How the texts begin that a process prints in each of its steps; the steps come one after the other."""
    mixed: Callable[[Start], str] = _unmixed
    """What shows that lines of two starts are mixed; empty where nothing does."""
    said_by_first: Callable[[Start, str], bool] = _never
    """Whether the release prints a rank's value for the first rank alone."""
    alone: Callable[[Start, Process], bool] = lambda start, process: not process.label  # noqa: ARG005
    """Whether a process that says so of itself is the only rank, where the layout was not printed."""
    replicas: Callable[[Start], int | None] = _replicas
    """How many times the ranks of one replica there are; None where it is not known."""
    devices: Callable[[Start], tuple[str, ...]] = _unnamed
    """The names of the devices that a model is spread over, where each is printed."""
    drafting: frozenset[str] = frozenset()
    """Lines after which all is of a draft model."""
    drafting_within: frozenset[str] = frozenset()
    """Those of `drafting` whose draft model is part of the model, so that none is named again."""
    worth: tuple[str, ...] = ()
    """What a line has that is worth saying that it was not understood; any line is, where this is empty."""
    core: frozenset[str] = frozenset({"weight_bytes", "kv_cache_bytes", "memory_bytes", "kv_capacity_tokens", "blocks"})
    """What a process says once in a start; where it says two things, two starts are mixed."""
    resolves: bool = False
    """Whether it prints what its settings came to beside those that were given."""
    nameless: bool = False
    """Whether no process ever names itself."""
    labelled: tuple[str, ...] = ()
    """Beginnings of labels beside which a rank never writes without one."""
    engine_labels: tuple[str, ...] | None = None
    """Beginnings of labels beside which nothing is written without one; as `labelled` where None."""
    synced: bool = True
    """Whether every rank says the same of what a replica has once."""
    absent: Mapping[str, Value] = field(default_factory=dict)
    """What holds where a whole list of the settings that were given does not name it."""

    def by_literal(self) -> Mapping[str, Sequence[Form]]:
        """The forms by the text that a line is looked through for."""
        grouped: dict[str, list[Form]] = {}
        for each in self.forms:
            grouped.setdefault(each.literal, []).append(each)
        return grouped
