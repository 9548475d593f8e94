"""Measurements for tests of the command line: they need no torch and do as they are told."""

import json
import os
import subprocess
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator
from pathlib import Path

from kvquote_probe.commands import Command, MeasureError, Say
from kvquote_probe.readings import Reading
from kvquote_probe.spool import Spool

Drill = Callable[[Namespace, Say], Iterator[Reading]]


def reading(number: float) -> Reading:
    return Reading("memory_bandwidth", {"bytes_per_second": number, "access": "read"}, gpu={"name": "cpu"})


def command(name: str, run: Drill, *options: str) -> Command:
    def add_arguments(parser: ArgumentParser) -> None:
        for option in options:
            parser.add_argument(f"--{option}")

    return Command(name, f"the drill {name}", lambda _args: [f"do {name}"], run, add_arguments)


def kept(folder: Path) -> list[float]:
    """The values that wait in a spool, the oldest first."""
    with Spool(folder) as spool:
        return [json.loads(row.text)["values"]["bytes_per_second"] for row in spool.batch()]


def two(_args: Namespace, say: Say) -> Iterator[Reading]:
    say("half-way")
    yield reading(1.0)
    yield reading(2.0)


def failing(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield reading(3.0)
    raise MeasureError("the card is in use: say --shared")


def refusing(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield from ()
    raise MeasureError("there is no torch here")


def broken(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield reading(6.0)
    raise ZeroDivisionError("a fault")


def nothing(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield from ()


def no_number(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield reading(4.0)
    yield reading(float("nan"))


def slow(_args: Namespace, _say: Say) -> Iterator[Reading]:
    yield reading(5.0)
    time.sleep(60)
    yield reading(6.0)


def with_children(_args: Namespace, say: Say) -> Iterator[Reading]:
    """Starts a process that starts another one and ignores SIGTERM, and then hangs."""
    yield reading(7.0)
    script = (
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "print(os.getpid(), child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    started = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    say(f"pids {os.getpid()} {started.stdout.readline().strip()}")
    time.sleep(60)


DRILLS = {"two": two, "failing": failing, "slow": slow, "with_children": with_children}


def main() -> int:
    """`python -m tests.clients.probe.drills NAME …`: the probe with these measurements instead of its own."""
    from kvquote_probe import cli
    from kvquote_probe.cli.words import Words

    drills = {name: command(name, run) for name, run in DRILLS.items()}
    cli.known_words = lambda words: Words(drills, ())  # noqa: ARG005 - called as the one that it replaces
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
