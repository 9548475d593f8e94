"""The nursery's own process: loads torch once, then forks an experiment for each order on its standard input.

An order is a line `{"call": "module:function", "arguments": [{...}, ...]}`, one experiment for each of the arguments,
all at the same time. Answers are lines on standard output: `{"say"}`, `{"rank", "result"}`, `{"error"}`, `{"died"}`,
and in the end `{"done"}`.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, NoReturn

from kvquote_probe.commands import MeasureError

_PR_SET_PDEATHSIG = 1
Experiment = Callable[[Mapping[str, Any], Callable[[str], None]], Any]


class _Child(NamedTuple):
    process: int
    answers: int


def main() -> None:
    """Take orders until standard input ends; arguments are modules that all forks share."""
    missing = _missing(sys.argv[1:])
    answers = os.dup(1)
    os.dup2(2, 1)  # libraries print; answers must stay clean
    orders = os.fdopen(os.dup(0), "rb", buffering=0)
    while line := orders.readline():
        if missing is not None:
            _send(answers, {"error": missing})
            _send(answers, {"done": True})
            continue
        order = json.loads(line)
        experiment = _found(order["call"])
        gc.freeze()  # or each fork copies what its collector looks through
        children = [_born(experiment, given, answers) for given in order["arguments"]]
        for rank, child in enumerate(children):
            _relay(rank, child, answers)
        _send(answers, {"done": True})


def _missing(names: Sequence[str]) -> str | None:
    """Why what all forks need cannot be loaded; None where it is."""
    try:
        for name in names:
            import_module(name)
    except (ImportError, OSError) as error:
        return f"This Python cannot load {', '.join(names)} ({error}): run the probe with the one that has it."
    return None


def _born(experiment: Experiment, arguments: Mapping[str, Any], answers: int) -> _Child:
    source, sink = os.pipe()
    parent = os.getpid()
    process = os.fork()
    if not process:
        os.close(source)
        os.close(answers)
        _live(experiment, arguments, sink, parent)
    os.close(sink)
    return _Child(process, source)


def _live(experiment: Experiment, arguments: Mapping[str, Any], sink: int, parent: int) -> NoReturn:
    """Run one experiment and leave without the nursery's own farewells."""
    status = 1
    try:
        _die_with(parent)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        result = experiment(arguments, lambda text: _send(sink, {"say": text}))
        _send(sink, {"result": result})
        status = 0
    except MeasureError as error:
        _send(sink, {"error": str(error)})
        status = 0
    except BaseException:  # noqa: BLE001  # the last frame of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _die_with(parent: int) -> None:
    """End when the nursery ends, whatever ends it (Linux; elsewhere the nursery's session is ended as a whole)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _found(call: str) -> Experiment:
    """Looked up before the fork, so that every module is loaded once."""
    module, _, name = call.partition(":")
    found: Experiment = getattr(import_module(module), name)
    return found


def _relay(rank: int, child: _Child, answers: int) -> None:
    kept = b""
    while piece := _next_piece(child.answers):
        *whole, kept = (kept + piece).split(b"\n")
        for line in whole:
            _send(answers, {"rank": rank, **json.loads(line)})
    os.close(child.answers)
    status = os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1])
    if status:
        _send(answers, {"died": status})


def _next_piece(source: int) -> bytes:
    """What an experiment says next; where the probe is gone meanwhile, so is everything here."""
    while True:
        ready, _, _ = select.select([source, 0], [], [])
        if source in ready:
            return os.read(source, 1 << 16)
        if 0 in ready and not os.read(0, 1):
            os.killpg(0, signal.SIGKILL)


def _send(sink: int, message: Mapping[str, Any]) -> None:
    left = json.dumps(message).encode() + b"\n"
    while left:
        left = left[os.write(sink, left) :]


if __name__ == "__main__":
    main()
