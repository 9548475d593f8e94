"""The commands of `kvquote-probe` that measure with torch, and the order and shares of `all`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from typing import Protocol

from kvquote_probe.commands import Command, Say, Share
from kvquote_probe.measure import allreduce, bandwidth, ceiling, facts, kv, matmul
from kvquote_probe.measure.setting import Bench, add_device_arguments, bench_for
from kvquote_probe.measure.steps import DECODE, PREFILL
from kvquote_probe.readings import Reading


class Measurement(Protocol):
    """A module or an object that measures."""

    def add_arguments(self, parser: ArgumentParser) -> None:
        """Options of its own."""

    def plan(self, args: Namespace) -> list[str]:
        """What will be done."""

    def measure(self, args: Namespace, say: Say, bench: Bench) -> Iterator[Reading]:
        """Do it."""


def _command(name: str, text: str, module: Measurement) -> Command:

    def add_arguments(parser: ArgumentParser) -> None:
        add_device_arguments(parser)
        module.add_arguments(parser)

    def run(args: Namespace, say: Say) -> Iterator[Reading]:
        with bench_for(args, say) as bench:
            yield from module.measure(args, say, bench)

    return Command(name=name, help=text, plan=module.plan, run=run, add_arguments=add_arguments)


MEASUREMENTS: dict[str, tuple[str, Measurement]] = {
    "device": ("what the driver and torch say of the device", facts),
    "kv": ("what a model's cache really takes for a token", kv),
    "ceiling": ("how many sequences of a context really fit beside a model", ceiling),
    "bandwidth": ("bytes a second out of the memory: read, copied, gathered", bandwidth),
    "matmul": ("operations a second of matrix products, by type", matmul),
    "decode": ("step times of a model's layers, weights and cache apart", DECODE),
    "prefill": ("how long a model's layers take for prompts", PREFILL),
    "allreduce": ("how long a sum over ranks takes, by size", allreduce),
}

COMMANDS = {name: _command(name, text, measurement) for name, (text, measurement) in MEASUREMENTS.items()}
"""All of them, by name."""

ALL = (
    Share("device", 0.05),
    Share("bandwidth", 0.1),
    Share("matmul", 0.18),
    Share("kv", 0.1),
    Share("decode", 0.25),
    Share("prefill", 0.15),
    Share("ceiling", 0.17),
)
"""What `all` runs, in order: what needs no model first. Sums over ranks need two cards and are asked for by name."""
