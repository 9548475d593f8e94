"""The commands of `kvquote-probe` that measure with torch, and the order and shares of `all`."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from types import ModuleType

from kvquote_probe.commands import Command, Say
from kvquote_probe.measure import allreduce, bandwidth, facts, kv, matmul
from kvquote_probe.measure.setting import add_device_arguments, bench_for
from kvquote_probe.readings import Reading


def _command(name: str, text: str, module: ModuleType) -> Command:
    """A command whose module has `add_arguments`, `plan` and `measure`."""

    def add_arguments(parser: ArgumentParser) -> None:
        add_device_arguments(parser)
        module.add_arguments(parser)

    def run(args: Namespace, say: Say) -> Iterator[Reading]:
        with bench_for(args, say) as bench:
            yield from module.measure(args, say, bench)

    plan: Callable[[Namespace], list[str]] = module.plan
    return Command(name=name, help=text, plan=plan, run=run, add_arguments=add_arguments)


COMMANDS = {
    command.name: command
    for command in (
        _command("device", "what the driver and torch say of the device", facts),
        _command("kv", "what a model's cache really takes for a token", kv),
        _command("bandwidth", "bytes a second out of the memory: read, copied, gathered", bandwidth),
        _command("matmul", "operations a second of matrix products, by type", matmul),
        _command("allreduce", "how long a sum over ranks takes, by size", allreduce),
    )
}
"""All of them, by name."""
