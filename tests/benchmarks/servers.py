"""gunicorn on loopback: the service with its own settings file, bare applications with the same workers and threads."""

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from statistics import mean
from time import perf_counter, sleep

import psutil

from service.settings import Settings
from tests.benchmarks import installed
from tests.benchmarks.installed import ROOT
from tests.benchmarks.loading import HOST, closed_loop

SETTINGS_FILE = ROOT / "service" / "gunicorn.conf.py"
SERVER_CORE, CLIENT_CORE = 0, 1
_START_SECONDS = 30.0
_STOP_SECONDS = 10.0
_LOOK_SECONDS = 0.002
# What `python -m gunicorn` runs.
_GUNICORN = "from gunicorn.app.wsgiapp import run; run(prog='gunicorn')"


@dataclass(frozen=True, slots=True)
class Server:
    """A running server; sizes and times are of its whole process tree."""

    port: int
    master: psutil.Process
    first_answer_seconds: float
    """From the start of the process to its first answer."""
    worker_count: int

    def cpu_seconds(self) -> float:
        return sum(map(_cpu_seconds, self._tree()))

    def workers(self) -> list[psutil.Process]:
        """All of them: they are forked one after another, and the first answers before the last is there."""
        until = perf_counter() + _START_SECONDS
        while len(workers := self.master.children()) < self.worker_count:
            if perf_counter() > until:
                raise TimeoutError(f"{len(workers)} of {self.worker_count} workers have started")
            sleep(_LOOK_SECONDS)
        return workers

    def pss_bytes(self) -> int:
        return sum(map(_pss_bytes, self._tree()))

    def worker_pss_bytes(self) -> float:
        """Mean of the workers."""
        return mean(map(_pss_bytes, self.workers()))

    def _tree(self) -> list[psutil.Process]:
        return [self.master, *self.master.children(recursive=True)]


def _cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


def _pss_bytes(process: psutil.Process) -> int:
    return int(process.memory_full_info().pss)


@contextmanager
def service(
    database_url: str, workers: int, first: bytes, *, pinned: bool = False, learns: bool = True
) -> Iterator[Server]:
    """The service as `kvquote-server serve` runs it, metrics counted in files as several workers do."""
    with tempfile.TemporaryDirectory(prefix="kvquote-metrics-") as folder:
        settings = {
            "DATABASE_URL": database_url,
            "KVQUOTE_WORKERS": str(workers),
            "PROMETHEUS_MULTIPROC_DIR": folder,
            **({} if learns else {"KVQUOTE_LEARNING_SECONDS": "0"}),
        }
        arguments = ("service.wsgi:app", "-c", str(SETTINGS_FILE))
        with _serving(arguments, settings, first, workers, pinned=pinned) as server:
            yield server


@contextmanager
def bare(application: str, workers: int, first: bytes, *, pinned: bool = False) -> Iterator[Server]:
    """A module of this folder with an `app`, under the same kind and number of workers and threads."""
    arguments = (
        f"tests.benchmarks.{application}:app",
        *("--worker-class", "gthread", "--workers", str(workers), "--threads", str(Settings().threads)),
        *("--preload", "--no-control-socket", "--worker-tmp-dir", "/dev/shm", "--log-level", "warning"),
    )
    with _serving(arguments, {}, first, workers, pinned=pinned) as server:
        yield server


@contextmanager
def _serving(
    arguments: tuple[str, ...], settings: Mapping[str, str], first: bytes, workers: int, *, pinned: bool
) -> Iterator[Server]:
    port = _free_port()
    command = installed.python(_GUNICORN, (*arguments, "--bind", f"{HOST}:{port}"))
    environment = {**installed.environment(), **settings}
    started = perf_counter()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=log)
        try:
            if pinned:
                os.sched_setaffinity(process.pid, {SERVER_CORE})
            _wait(process, port, first)
            yield Server(port, psutil.Process(process.pid), perf_counter() - started, workers)
        except BaseException:
            log.seek(0)
            sys.stderr.write(log.read().decode(errors="replace")[-2000:])
            raise
        finally:
            _stop(process)


def can_pin() -> bool:
    """Whether server and load generator may have a core each."""
    return {SERVER_CORE, CLIENT_CORE} <= os.sched_getaffinity(0)


@contextmanager
def on_core(core: int | None) -> Iterator[None]:
    """Keep this process to one core for a while, None for where it may run anyway."""
    former = os.sched_getaffinity(0)
    os.sched_setaffinity(0, former if core is None else {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, former)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _wait(process: subprocess.Popen[bytes], port: int, first: bytes) -> None:
    """Return once the first request is answered; raises RuntimeError where the server ends before."""
    until = perf_counter() + _START_SECONDS
    while perf_counter() < until:
        if process.poll() is not None:
            raise RuntimeError(f"gunicorn ended with {process.returncode}")
        try:
            closed_loop(port, [first], connections=1)
        except ConnectionError:
            sleep(_LOOK_SECONDS)
        else:
            return
    raise TimeoutError("gunicorn did not answer in time")


def _stop(process: subprocess.Popen[bytes]) -> None:
    family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
    process.terminate()
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        for member in family:
            with suppress(psutil.NoSuchProcess):
                member.kill()
        process.kill()
        process.wait()
