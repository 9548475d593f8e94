"""`python -m tests.clients.probe.kill [--points N] [--rows N] [--seed N]`: kill either side of an upload.

At each point a probe uploads rows of a new spool to the service under gunicorn. Between them stands a tap that counts
bytes: at one drawn from the seed, in a request or in a reply, and a few milliseconds later, the probe or the service
with all its workers is killed (SIGKILL). The probe is then started again, or the service is and the probe goes on by
itself. Afterwards each row has to be stored exactly once and none may be left in the spool. Ends with 1 where a row was
lost, is there twice or still waits.
"""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import NamedTuple
from urllib.error import URLError
from urllib.request import urlopen
from uuid import UUID, uuid4

from sqlalchemy import select

from kvquote_probe.spool import Spool
from service.storage.database import make_engine, writing
from service.storage.measurement_tables import MEASUREMENT
from service.storage.tokens import Scope, create_token
from tests.databases import Databases, SqliteServer

ROOT = Path(__file__).parents[3]
_START_SECONDS, _END_SECONDS = 60, 120
_LOOK_SECONDS = 0.02
_MOMENT = "2026-11-01T10:00:00Z"


class Point(NamedTuple):
    """What happened at one point: who was killed and where, how many rows were stored then, and how it ended."""

    victim: str
    at_byte: int
    stored_then: int
    ended: int
    stored: int
    waiting: int
    aside: int

    def is_whole(self, rows: int) -> bool:
        return (self.ended, self.stored, self.waiting, self.aside) == (0, rows, 0, 0)


class Tap:
    """Forwards connections to a port and counts what passes; calls `then` once at a byte, and holds the rest back."""

    def __init__(self, port: int) -> None:
        self.port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._lock = Lock()
        self.passed = 0
        self._at: int | None = None
        self._then: Callable[[], None] = lambda: None
        Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def arm(self, at: int | None, then: Callable[[], None]) -> None:
        with self._lock:
            self.passed, self._at, self._then = 0, at, then

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            Thread(target=self._joined, args=(client,), daemon=True).start()

    def _joined(self, client: socket.socket) -> None:
        """One connection, until both sides are closed."""
        with client, suppress(OSError), socket.create_connection(("127.0.0.1", self.port)) as server:
            back = Thread(target=self._pump, args=(server, client), daemon=True)
            back.start()
            self._pump(client, server)
            back.join()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while piece := source.recv(1 << 16):
                target.sendall(self._counted(target, piece))
        for end in (source, target):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _counted(self, target: socket.socket, piece: bytes) -> bytes:
        """What of a piece is still to be sent once it was counted, and what was to happen in it has happened."""
        with self._lock:
            before, self.passed = self.passed, self.passed + len(piece)
            if self._at is None or self.passed <= self._at:
                return piece
            cut, self._at = self._at - before, None
            target.sendall(piece[:cut])
            self._then()
            return piece[cut:]


class Service:
    """The service under gunicorn on one port and one database, killed and started again as often as is wanted."""

    def __init__(self, url: str, folder: Path) -> None:
        self._database = url
        self._log = folder / "service.log"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._engine = make_engine(url, timeout_seconds=5)
        self._process: subprocess.Popen[bytes] | None = None
        with writing(self._engine) as connection:
            self.token = create_token(connection, "fleet", [Scope.MEASUREMENTS_WRITE], "tests", None)[1]

    def start(self) -> None:
        command = [sys.executable, "-m", "gunicorn", "service.wsgi:app", "-c", "service/gunicorn.conf.py"]
        variables = {**os.environ, "DATABASE_URL": self._database, "PORT": str(self.port), "KVQUOTE_WORKERS": "1"}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=variables, stdout=log, stderr=log, start_new_session=True
            )
        until = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > until:
                raise AssertionError(self._log.read_text()[-2000:])
            time.sleep(_LOOK_SECONDS)

    def kill(self) -> None:
        """The arbiter and its workers at once: the connection is theirs."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.kill()
        self._engine.dispose()

    def stored(self, probe_id: str) -> Counter[str]:
        """How often each row of a probe is there."""
        with self._engine.connect() as connection:
            found = connection.execute(select(MEASUREMENT.c.id).where(MEASUREMENT.c.probe_id == UUID(probe_id)))
            return Counter(str(row_id) for (row_id,) in found)

    def _answers(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/livez", timeout=1) as reply:
                return bool(reply.status == 200)
        except (URLError, OSError):
            return False


class Range:
    """Where points are tried: each with a spool of its own, all with one service behind one tap."""

    def __init__(self, service: Service, folder: Path, rows: int) -> None:
        self._service = service
        self._folder = folder
        self._rows = rows
        self._tap = Tap(service.port)
        folder, _ = self._filled()
        assert self._probe(folder).wait(_END_SECONDS) == 0
        self._bytes = self._tap.passed

    def close(self) -> None:
        self._tap.close()

    def try_point(self, victim: str, share: float, delay_seconds: float) -> Point:
        """Kill `victim` where that share of an upload's bytes has passed, bring it back, and count."""
        folder, probe_id = self._filled()
        reached = Event()
        at = int(share * self._bytes)

        def kill() -> None:
            time.sleep(delay_seconds)
            if victim == "service":
                self._service.kill()
            else:
                probe.kill()
            reached.set()

        self._tap.arm(at, kill)
        probe = self._probe(folder)
        assert reached.wait(_END_SECONDS)
        then = self._service.stored(probe_id).total()
        if victim == "service":
            self._service.start()
        else:
            probe.wait()
            probe = self._probe(folder)
        ended = probe.wait(_END_SECONDS)
        stored = self._service.stored(probe_id).total()
        with Spool(folder) as spool:
            counts = spool.counts()
        return Point(victim, at, then, ended, stored, counts.waiting, counts.aside)

    def _filled(self) -> tuple[Path, str]:
        folder = self._folder / str(uuid4())
        with Spool(folder) as spool:
            spool.add(a_row(spool.probe_id, number) for number in range(self._rows))
            return folder, spool.probe_id

    def _probe(self, folder: Path) -> "subprocess.Popen[bytes]":
        variables = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "clients" / "src"),
            "KVQUOTE_URL": self._tap.url,
            "KVQUOTE_TOKEN": self._service.token,
        }
        command = [sys.executable, "-m", "kvquote_probe", "upload", "--spool", str(folder), "--patience", "60"]
        return subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def a_row(probe_id: str, number: int) -> dict[str, object]:
    return {
        "id": str(uuid4()),
        "probe_id": probe_id,
        "kind": "memory_bandwidth",
        "measured_at": _MOMENT,
        "gpu": {"name": "NVIDIA H100 80GB HBM3"},
        "values": {"bytes_per_second": 2.9e12 + number, "access": "read"},
    }


@contextmanager
def trying(url: str, folder: Path, rows: int) -> Iterator[Range]:
    """A range on the database at `url`."""
    service = Service(url, folder)
    try:
        service.start()
        with closing(Range(service, folder, rows)) as place:
            yield place
    finally:
        service.close()


def points(count: int, seed: int) -> Iterator[tuple[str, float, float]]:
    """Who is killed, at which share of the bytes, and how many seconds later; each seed has its own."""
    drawn = random.Random(seed)
    for _ in range(count):
        yield drawn.choice(["probe", "service"]), drawn.random(), drawn.choice([0, 0.05]) * drawn.random()


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser(prog="python -m tests.clients.probe.kill", description="Kill either side of an upload.")
    parser.add_argument("--points", type=int, default=50)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=20261130)
    asked = parser.parse_args(arguments)
    tried = []
    with (
        tempfile.TemporaryDirectory(prefix="kvquote-kill-") as name,
        Databases(SqliteServer(Path(name))).loaded() as url,
        trying(url, Path(name), asked.rows) as place,
    ):
        for number, point in enumerate(points(asked.points, asked.seed), 1):
            tried.append(place.try_point(*point))
            say(f"{number:3} {_told(tried[-1], asked.rows)}")
    lost = sum(max(0, asked.rows - point.stored) for point in tried)
    twice = sum(max(0, point.stored - asked.rows) for point in tried)
    whole = sum(point.is_whole(asked.rows) for point in tried)
    during = sum(point.stored_then < asked.rows for point in tried)
    say(f"{len(tried)} points, {during} of them with rows to come; LOST {lost}, TWICE {twice}, whole {whole}")
    return 0 if whole == len(tried) else 1


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def _told(point: Point, rows: int) -> str:
    wrong = f"NOT WHOLE: status {point.ended}, {point.waiting} wait, {point.aside} aside"
    return (
        f"{point.victim} killed at byte {point.at_byte:,}, {point.stored_then:,} of {rows:,} stored; "
        f"then {point.stored:,}: {'whole' if point.is_whole(rows) else wrong}"
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
