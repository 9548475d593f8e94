"""Processes of their own for experiments, forked from one that has loaded torch and touched no device.

Only a process that began clean is to be trusted after an out-of-memory, and only one that has ended holds nothing.
Loading torch takes seconds, so it is loaded once, in a nursery; every experiment is a fork of it. The nursery never
asks for a device, since what CUDA has opened does not survive a fork. When the probe ends, however it ends, so do all.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import IO, TYPE_CHECKING, Any

from kvquote_probe.commands import MeasureError, Say

if TYPE_CHECKING:
    from typing_extensions import Self

_FRAME = "kvquote_probe.measure.cradle"
_STOP_SECONDS = 30.0


class ExperimentDied(MeasureError):
    """An experiment ended without a result; `by_signal` is whether the system ended it, as it does short of memory."""

    by_signal = False


class NurseryGone(ExperimentDied):
    """Nothing more is heard of an experiment, or it took too long; all that was under way is ended."""


class Nursery:
    """Runs experiments by name, `module:function`; not to be shared by threads. `load` is what all of them need."""

    def __init__(self, environment: Mapping[str, str] | None = None, load: Sequence[str] = ("torch",)) -> None:
        self._environment = dict(environment or {})
        self._load = tuple(load)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._started()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, call: str, arguments: Mapping[str, Any], say: Say, timeout_seconds: float = 3600.0) -> Any:  # noqa: ANN401  # JSON
        """What one experiment returns.

        Raises:
            MeasureError: it says that it cannot be done.
            ExperimentDied: it was killed.
            NurseryGone: it took longer than `timeout_seconds`.
        """
        return self.run_together(call, [arguments], say, timeout_seconds)[0]

    def run_together(
        self, call: str, arguments: Sequence[Mapping[str, Any]], say: Say, timeout_seconds: float = 3600.0
    ) -> list[Any]:
        """What experiments return that run at the same time, in the order of their arguments; errors as in `run`."""
        process = self._started()
        order = json.dumps({"call": call, "arguments": arguments}).encode() + b"\n"
        try:
            _input(process).write(order)
            _input(process).flush()
            return self._results(process, len(arguments), say, time.monotonic() + timeout_seconds)
        except BaseException as error:
            # What was under way must not outlive the one who asked for it; what has told its end is over.
            if not isinstance(error, MeasureError) or isinstance(error, NurseryGone):
                self.close()
            if isinstance(error, BrokenPipeError):
                raise NurseryGone("The process that starts experiments is gone.") from error
            raise

    def close(self) -> None:
        """End every process of it, and wait until they are gone."""
        process, self._process = self._process, None
        if process is None:
            return
        _kill_all(process.pid)
        with suppress(subprocess.TimeoutExpired):  # a card's driver may hold a process for longer
            process.wait(_STOP_SECONDS)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None or self._process.poll() is not None:
            self.close()
            # A session of its own: all of it can be ended at once, and a key press ends it through us only.
            self._process = subprocess.Popen(  # noqa: S603  # our own interpreter and module
                [sys.executable, "-W", "ignore::DeprecationWarning", "-m", _FRAME, *self._load],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **_environment(), **self._environment},
            )
        return self._process

    def _results(self, process: subprocess.Popen[bytes], count: int, say: Say, deadline: float) -> list[Any]:
        results: list[Any] = [None] * count
        failure: MeasureError | None = None
        for message in _messages(process, deadline):
            if "say" in message:
                say(message["say"])
            elif "result" in message:
                results[message["rank"]] = message["result"]
            elif "error" in message:
                failure = failure or MeasureError(message["error"])
            elif "died" in message:
                failure = failure or _death(message["died"])
            elif "done" in message:
                break
        if failure is not None:
            raise failure
        return results


@contextmanager
def nursery(load: Sequence[str] = ("torch",)) -> Iterator[Nursery]:
    """A nursery that is gone afterwards, also when the probe is told to stop (SIGTERM)."""
    with _stop_raises(), Nursery(load=load) as made:
        yield made


@contextmanager
def _stop_raises() -> Iterator[None]:
    """SIGTERM ends the program through its `finally` clauses, as Ctrl-C does; a handler that is set already stays."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return
    signal.signal(signal.SIGTERM, _stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _stop(number: int, _: object) -> None:
    raise SystemExit(128 + number)


def _environment() -> dict[str, str]:
    """Torch then asks the driver's library and not the runtime whether there is a GPU, which a fork survives.

    Modules are found where this process finds them, and not in whatever folder it was started in.
    """
    found = os.pathsep.join(path for path in sys.path if path)
    return {"PYTORCH_NVML_BASED_CUDA_CHECK": "1", "PYTHONSAFEPATH": "1", "PYTHONPATH": found}


def _input(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdin is None:
        raise NurseryGone("The process that starts experiments takes no orders.")
    return process.stdin


def _messages(process: subprocess.Popen[bytes], deadline: float) -> Iterator[dict[str, Any]]:
    if process.stdout is None:
        raise NurseryGone("The process that starts experiments says nothing.")
    for line in _lines(process.stdout.fileno(), lambda: deadline - time.monotonic()):
        yield json.loads(line)
    raise NurseryGone("The process that starts experiments is gone; can this Python import torch?")


def _lines(source: int, seconds_left: Callable[[], float]) -> Iterator[bytes]:
    """Whole lines as they come; raises NurseryGone when there is no time left."""
    kept = b""
    with selectors.DefaultSelector() as selector:
        selector.register(source, selectors.EVENT_READ)
        while True:
            left = seconds_left()
            if left <= 0 or not selector.select(left):
                raise NurseryGone("The experiment took longer than it may.")
            piece = os.read(source, 1 << 16)
            if not piece:
                return
            *whole, kept = (kept + piece).split(b"\n")
            yield from whole


def _death(status: int) -> ExperimentDied:
    if status >= 0:
        return ExperimentDied(f"The experiment ended with status {status} and without a result.")
    death = ExperimentDied(
        f"The experiment was ended by {signal.Signals(-status).name}; the system may have run out of memory."
    )
    death.by_signal = True
    return death


def _kill_all(session: int) -> None:
    """The nursery leads a session: no other process of ours has its number."""
    with suppress(ProcessLookupError):
        os.killpg(session, signal.SIGKILL)
