"""The service under gunicorn, as `kvquote-server serve` runs it, spoken to over a bare socket."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
START_SECONDS = 60


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back: `status` is 0 where the connection closed without an answer."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class Server:
    """A running server and where its log goes."""

    port: int
    process: "subprocess.Popen[bytes]"
    log: Path

    def send(self, request: bytes, timeout: float = 10) -> Reply:
        """Send bytes as they are; read until the server closes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout) as connection:
            connection.sendall(request)
            return parsed(b"".join(iter(lambda: connection.recv(65536), b"")))

    def get(self, path: str) -> Reply:
        return self.send(f"GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())


def parsed(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    status, *lines = head.decode("latin-1").split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(int(status.split(" ")[1]) if status else 0, headers, body)


@contextmanager
def gunicorn(database_url: str, log: Path, **environment: str) -> Iterator[Server]:
    """Start it on a free port, wait until it answers, and stop it in the end."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    variables = {**os.environ, "DATABASE_URL": database_url, "PORT": str(port), **environment}
    command = [sys.executable, "-m", "gunicorn", "service.wsgi:app", "-c", "service/gunicorn.conf.py"]
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=ROOT, env=variables, stdout=out, stderr=subprocess.STDOUT)
    try:
        server = Server(port, process, log)
        _wait(server)
        yield server
    finally:
        process.terminate()
        process.wait(30)


def _wait(server: Server) -> None:
    until = time.monotonic() + START_SECONDS
    while time.monotonic() < until and server.process.poll() is None:
        try:
            if server.get("/livez").status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(server.log.read_text())
