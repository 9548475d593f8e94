"""A load generator on plain sockets with keep-alive: as fast as answers come, or at a fixed rate.

It needs nothing installed and one thread. At a fixed rate a latency counts from the moment a request was due, so that
a server that stalls is charged for the requests that wait behind it.
"""

import re
import select
import socket
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from time import perf_counter

HOST = "127.0.0.1"
PATIENCE_SECONDS = 10.0
_length = re.compile(rb"\r\ncontent-length: *(\d+)\r\n", re.IGNORECASE)


@dataclass(slots=True)
class Load:
    """What came back: seconds from first to last, and the latency of each request."""

    seconds: float = 0.0
    latencies: list[float] = field(default_factory=list)

    @property
    def per_second(self) -> float:
        return len(self.latencies) / self.seconds

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


def post(path: str, body: bytes) -> bytes:
    kind = f"Content-Type: application/json\r\nContent-Length: {len(body)}"
    return f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\n{kind}\r\n\r\n".encode() + body


def closed_loop(port: int, requests: Sequence[bytes], connections: int = 8) -> Load:
    """Each connection sends its next request once the last one is answered; every answer must be a 200."""
    return _run(port, ((request, None) for request in requests), connections)


def fixed_rate(port: int, requests: Sequence[bytes], per_second: float, connections: int = 32) -> Load:
    """Requests are due at even distances, whether or not earlier ones are answered."""
    started = perf_counter()
    return _run(port, ((request, started + n / per_second) for n, request in enumerate(requests)), connections)


def _run(port: int, requests: Iterable[tuple[bytes, float | None]], connections: int) -> Load:
    load = Load()
    started = perf_counter()
    with closing(_Connections(port, connections, load)) as held:
        for request, due in requests:
            held.wait_until(due)
            held.send(request, due)
        held.wait_for_all()
    load.seconds = perf_counter() - started
    return load


class _Connections:
    """Open connections, free or with one request under way."""

    def __init__(self, port: int, count: int, load: Load) -> None:
        self._load = load
        # The one that waited longest goes first: gunicorn closes a connection that is idle for two seconds.
        self._free = deque(self._connected(port) for _ in range(count))
        self._asked: dict[socket.socket, float] = {}
        self._parts: dict[socket.socket, bytes] = {}

    @staticmethod
    def _connected(port: int) -> socket.socket:
        connection = socket.create_connection((HOST, port), PATIENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def wait_until(self, due: float | None) -> None:
        """Take answers until a connection is free and the request is due."""
        while not self._free:
            self._await_answer()
        while due is not None and (left := due - perf_counter()) > 0:
            self._receive(left)

    def wait_for_all(self) -> None:
        while self._asked:
            self._await_answer()

    def send(self, request: bytes, due: float | None) -> None:
        connection = self._free.popleft()
        self._asked[connection] = perf_counter() if due is None else due
        self._parts[connection] = b""
        connection.sendall(request)

    def close(self) -> None:
        for connection in (*self._free, *self._asked):
            connection.close()

    def _await_answer(self) -> None:
        if not self._receive(PATIENCE_SECONDS):
            raise TimeoutError(f"no answer within {PATIENCE_SECONDS:g} s")

    def _receive(self, seconds: float) -> bool:
        """Take what comes next; whether anything came."""
        # select and not epoll, whose time-outs are whole milliseconds.
        ready, _, _ = select.select(list(self._asked), [], [], seconds)
        for connection in ready:
            self._read(connection)
        return bool(ready)

    def _read(self, connection: socket.socket) -> None:
        part = connection.recv(1 << 16)
        if not part:
            raise ConnectionError("the server closed a connection with a request under way")
        answer = self._parts[connection] = self._parts[connection] + part
        if _is_whole(answer):
            self._load.latencies.append(perf_counter() - self._asked.pop(connection))
            self._free.append(connection)


def _is_whole(answer: bytes) -> bool:
    """Whether all of an answer has come; raises RuntimeError where it is no 200."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    if answer[9:12] != b"200":
        raise RuntimeError(f"answered {answer[:300]!r}")
    stated = _length.search(answer, 0, end + 2)
    return stated is not None and len(answer) >= end + 4 + int(stated[1])
