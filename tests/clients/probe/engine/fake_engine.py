"""An HTTP server with the pages of an engine, or with whatever goes wrong on the way to them."""

import socket
import struct
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

NONE: Mapping[str, str] = {}


class FakeEngine(ThreadingHTTPServer):
    """`pages` by path as kind and body; `trouble`, where there is any, answers instead."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.pages: Mapping[str, tuple[str, bytes]] = {}
        self.trouble: Callable[[Handler], None] | None = None
        self.asked: list[str] = []
        self.tokens: set[str | None] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, *_: object) -> None:
        """A client that hangs up is no news."""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeEngine

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        self.server.tokens.add(self.headers.get("Authorization"))
        if self.server.trouble is not None:
            self.server.trouble(self)
            return
        kind, body = self.server.pages.get(self.path, ("text/plain", b""))
        self.send(200 if self.path in self.server.pages else 404, kind, body)

    def send(
        self, status: int, kind: str, body: bytes, headers: Mapping[str, str] = NONE, length: int | None = None
    ) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def status(code: int, headers: Mapping[str, str] = NONE) -> Callable[[Handler], None]:
    return lambda handler: handler.send(code, "text/html", b"<html>no</html>", headers)


def page(handler: Handler) -> None:
    handler.send(200, "text/html", b"<html><body>Welcome to nginx!</body></html>")


def reset(handler: Handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True


def half_a_reply(handler: Handler) -> None:
    handler.send(200, "application/json", b'{"version": "0.1', length=4000)
    handler.close_connection = True


def endless(handler: Handler) -> None:
    """A body without an end, as fast as it is read."""
    handler.send_response(200)
    handler.send_header("Content-Type", "text/plain")
    handler.end_headers()
    handler.close_connection = True
    for _ in range(2000):
        handler.wfile.write(b"x" * (1 << 16))


def dribbling(handler: Handler) -> None:
    """A byte now and then, each in time for the read's own limit."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000000")
    handler.end_headers()
    for _ in range(100):
        handler.wfile.write(b"x")
        handler.wfile.flush()
        time.sleep(0.05)


@contextmanager
def fake_engine() -> Iterator[FakeEngine]:
    with FakeEngine() as server:
        thread = Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()
