"""A service that takes measurements and fails as it is told: the stand-in for a lost network or a broken proxy."""

import gzip
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

Fault = Callable[["Handler", dict[str, Any]], bool]
"""Answers in place of the service; True where the rows are stored all the same."""


class FakeService(ThreadingHTTPServer):
    """Rows by id, how often each came, and faults that are used up one request each."""

    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.rows: dict[str, dict[str, Any]] = {}
        self.bodies: list[dict[str, Any]] = []
        self.headers_seen: list[dict[str, str]] = []
        self.faults: list[Fault] = []
        self.judge: Callable[[dict[str, Any]], tuple[str, str | None]] = lambda _row: ("accepted", None)
        self.most_rows = 1000
        self.told_rows = 50

    def handle_error(self, *_: object) -> None:
        """A connection that was broken on purpose is no news."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def take(self, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers: list[dict[str, Any]] = []
        listed = 0
        for row in items:
            verdict, detail = self.judge(row)
            if verdict not in {"rejected", "conflict"}:
                verdict = "duplicate" if row["id"] in self.rows else verdict
                self.rows[row["id"]] = row
            shown = listed < self.told_rows
            listed += detail is not None
            answers.append({"id": row["id"], "verdict": verdict, "detail": detail if shown else None, "errors": []})
        return answers


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeService

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        envelope = json.loads(body)
        self.server.bodies.append(envelope)
        self.server.headers_seen.append(dict(self.headers))
        if self.server.faults:
            if self.server.faults.pop(0)(self, envelope):
                self.server.take(envelope["items"])
            return
        if len(envelope["items"]) > self.server.most_rows:
            self.reply(413, {"type": "/problems/too-large", "title": "Too large", "status": 413})
            return
        self.reply(200, {"items": self.server.take(envelope["items"]), "counts": {}})

    def reply(self, status: int, document: object, **headers: str) -> None:
        kind = "application/json" if status < 400 else "application/problem+json"
        self.send(status, json.dumps(document).encode(), kind, **headers)

    def send(self, status: int, body: bytes, kind: str, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", headers.pop("length", str(len(body))))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def status(code: int, *, stored: bool = False, **headers: str) -> Fault:
    def fault(handler: Handler, _envelope: dict[str, Any]) -> bool:
        handler.reply(code, {"type": f"/problems/{code}", "title": str(code), "status": code}, **headers)
        return stored

    return fault


def page(code: int) -> Fault:
    def fault(handler: Handler, _envelope: dict[str, Any]) -> bool:
        handler.send(code, b"<html>It works!</html>", "text/html")
        return False

    return fault


def reset(handler: Handler, _envelope: dict[str, Any]) -> bool:
    """The connection is gone after the rows were stored."""
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()
    handler.close_connection = True
    return True


def half_a_reply(handler: Handler, _envelope: dict[str, Any]) -> bool:
    handler.send(200, b'{"items": [{"id": ', "application/json", length="4096")
    handler.close_connection = True
    return True


def other_rows(handler: Handler, envelope: dict[str, Any]) -> bool:
    """A reply that belongs to another request, as a muddled proxy gives it."""
    items = [{"id": "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10", "verdict": "accepted"} for _ in envelope["items"]]
    handler.reply(200, {"items": items})
    return False


def too_few(handler: Handler, envelope: dict[str, Any]) -> bool:
    handler.reply(200, {"items": [{"id": row["id"], "verdict": "accepted"} for row in envelope["items"][1:]]})
    return True


def no_document(handler: Handler, _envelope: dict[str, Any]) -> bool:
    handler.reply(200, ["accepted"])
    return False


def late(seconds: float) -> Fault:
    def fault(_handler: Handler, _envelope: dict[str, Any]) -> bool:
        time.sleep(seconds)
        return False

    return fault


@contextmanager
def fake_service() -> Iterator[FakeService]:
    with FakeService() as service:
        thread = Thread(target=service.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        yield service
        service.shutdown()
        thread.join()
