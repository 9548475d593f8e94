"""`make bench`, or `python -m tests.benchmarks [SECTION ...] [--json FILE]`: speed and memory as ratios.

Every figure is taken against something bare in the same run, so it says the same on a slow and on a busy machine.
Ends with 1 where a figure misses its bar. Nothing here is a timing test: no test fails because a machine is slow.
"""

import json
import signal
import sys
import tempfile
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from time import perf_counter

from tests.benchmarks import (
    client,
    commands,
    domain,
    engines,
    in_process,
    ingest,
    large_catalog,
    latency,
    learned,
    logs,
    memory,
    over_http,
    probe,
    starting,
    statements,
)
from tests.benchmarks.figures import Figure, as_json, table
from tests.benchmarks.workplace import FULL, Workplace
from tests.databases import Databases, PostgresqlServer, SqliteServer, postgresql_url

Section = Callable[[Workplace], list[Figure]]

SECTIONS: dict[str, Section] = {
    "process": in_process.measure,
    "domain": domain.measure,
    "commands": commands.measure,
    "engines": engines.measure,
    "sql": statements.measure,
    "http": over_http.measure,
    "latency": latency.measure,
    "memory": memory.measure,
    "start": starting.measure,
    "catalog": large_catalog.measure,
    "logs": logs.measure,
    "client": client.measure,
    "probe": probe.measure,
    "ingest": ingest.measure,
    "learned": learned.measure,
}
# Two to five minutes are usual; a machine that is busy with other work takes longer.
LONGEST_SECONDS = 1200


def main(arguments: Sequence[str]) -> int:
    """Measure the sections named, all by default; the exit status is 1 where a bar is missed."""
    asked = _parsed(arguments)
    figures: list[Figure] = []
    try:
        with ExitStack() as stack:
            effort = replace(FULL, stored=asked.stored)
            place = Workplace(effort, lambda: _sqlite(stack), lambda: _postgresql(stack))
            for name in asked.sections or SECTIONS:
                figures += _measured(name, place)
    finally:
        # What was measured before an interruption is worth having.
        _tell(figures, asked.json)
    return 0 if all(figure.ok for figure in figures) else 1


def _parsed(arguments: Sequence[str]) -> Namespace:
    parser = ArgumentParser(prog="python -m tests.benchmarks", description="Measure speed and memory as ratios.")
    parser.add_argument("sections", nargs="*", choices=[[], *SECTIONS], metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument(
        "--stored", type=int, default=FULL.stored, metavar="N", help="measurements of the section learned"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures as JSON")
    return parser.parse_args(arguments)


def _tell(figures: Sequence[Figure], file: Path | None) -> None:
    print(table(figures), flush=True)
    if file:
        file.write_text(json.dumps(as_json(figures), indent=2) + "\n")


def _measured(name: str, place: Workplace) -> list[Figure]:
    print(f"{name}:", file=sys.stderr, flush=True)
    started = perf_counter()
    figures = SECTIONS[name](place)
    place.say(f"done in {perf_counter() - started:.0f} s")
    return figures


def _bound() -> None:
    """When told to stop, or after too long, leave as an error does: that is where servers are stopped."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(f"stopped by {signal.Signals(number).name}; the whole run may take {LONGEST_SECONDS} s")

    signal.signal(signal.SIGTERM, leave)
    signal.signal(signal.SIGALRM, leave)
    signal.alarm(LONGEST_SECONDS)


def _sqlite(stack: ExitStack) -> str:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kvquote-bench-"))
    return stack.enter_context(Databases(SqliteServer(Path(folder))).loaded())


def _postgresql(stack: ExitStack) -> str:
    server = PostgresqlServer(stack.enter_context(postgresql_url()))
    stack.callback(server.close)
    return stack.enter_context(Databases(server).loaded())


if __name__ == "__main__":
    _bound()
    sys.exit(main(sys.argv[1:]))
