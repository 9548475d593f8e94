"""What a subcommand of `kvquote-probe` that measures is made of."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from kvquote_probe.readings import Reading

Say = Callable[[str], None]
"""Takes one line of progress for a person; it goes to standard error."""


class MeasureError(Exception):
    """Why nothing could be measured, in one sentence that says what to do about it."""


def no_arguments(parser: ArgumentParser) -> None:
    """For a command that has no options of its own."""


@dataclass(frozen=True)
class Command:
    """A measurement. `plan` may look at the arguments only; `run` may import torch, start children and take its time.

    `run` yields each reading as soon as it is there, so that it is spooled before the next one begins. It raises
    MeasureError where nothing can be measured; closing the iterator ends every process that it started.
    """

    name: str
    help: str
    plan: Callable[[Namespace], list[str]]
    run: Callable[[Namespace, Say], Iterator[Reading]]
    add_arguments: Callable[[ArgumentParser], None] = no_arguments


class Share(NamedTuple):
    """A measurement's place in `all`: its name, and the share of the whole time that it may take."""

    name: str
    share: float
