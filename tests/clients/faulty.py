"""A server that answers as it is told: whole replies, half ones, none, and nonsense."""

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from socketserver import StreamRequestHandler, ThreadingTCPServer
from threading import Thread
from typing import NamedTuple

Say = Callable[[socket.socket], object]


class Asked(NamedTuple):
    """One request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


class Faulty(ThreadingTCPServer):
    """`script` is what it says to one request after another; the last is repeated."""

    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[Say] = []
        self.asked: list[Asked] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def says(self, *script: Say) -> None:
        self.script, self.asked = list(script), []


class Handler(StreamRequestHandler):
    server: Faulty

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        if not line:
            return
        method, path, _ = line.split()
        headers = {}
        while (header := self.rfile.readline().decode().strip()) != "":
            name, _, value = header.partition(": ")
            headers[name.title()] = value
        body = self.rfile.read(int(headers.get("Content-Length", "0")))
        said = self.server.script[min(len(self.server.asked), len(self.server.script) - 1)]
        self.server.asked.append(Asked(method, path, headers, body))
        with suppress(OSError):
            said(self.request)


@contextmanager
def faulty_server() -> Iterator[Faulty]:
    with Faulty() as server:
        thread = Thread(target=lambda: server.serve_forever(poll_interval=0.05))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def reply(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Say:
    """A whole reply; `length` says another length than it has."""
    length = headers.pop("length", str(len(body)))
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n{more}\r\n"
    return lambda wire: wire.sendall(head.encode() + body)


def good(document: object, status: int = 200, **headers: str) -> Say:
    return reply(status, json.dumps(document).encode(), **headers)


def problem(status: int, document: object = None, **headers: str) -> Say:
    said = {"type": "/problems/x", "title": "No", "status": status, "detail": "Not so.", "request_id": "r1"}
    return reply(status, json.dumps(document or said).encode(), "application/problem+json", **headers)


def half(document: object) -> Say:
    """A reply that ends before its body does."""
    body = json.dumps(document).encode()
    return reply(200, body[: len(body) // 2], length=str(len(body)))


def reset(wire: socket.socket) -> None:
    """Cut the connection without a word."""
    wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


def silent(seconds: float) -> Say:
    """Say nothing for so long."""
    return lambda _wire: time.sleep(seconds)
