"""`device`: one row of what the driver and torch say, and what a process costs there."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator

from kvquote_probe.commands import Say
from kvquote_probe.measure.setting import Bench
from kvquote_probe.readings import Reading


def add_arguments(parser: ArgumentParser) -> None:
    """None of its own."""


def plan(args: Namespace) -> list[str]:
    """What will be looked at."""
    return [f"ask the driver and torch for the memory, the clocks and the context of {args.device}; nothing is changed"]


def measure(args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:  # noqa: ARG001  # as all measurements
    """The row of the device."""
    values = bench.facts["values"]
    say(f"{bench.facts['gpu']['name']}: {values['free_bytes']:,} B free of {values['total_bytes']:,} B")
    yield bench.reading("device_memory", values, samples=[float(values["total_bytes"])])
