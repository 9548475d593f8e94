"""The shipped proxy: a slow client costs the service nothing, and what the proxy says itself is a problem too."""

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from service.api.problem_types import PROBLEM_TYPES
from service.settings import Settings
from tests.api.gunicorn_server import Reply, Server, gunicorn
from tests.deploy.proxy import CONFIG, NGINX, free_port, proxy
from tests.deploy.settings import DEPLOY

if TYPE_CHECKING:
    from tests.databases import Databases

SILENT_CLIENTS = 64
HALF_A_HEAD = b"POST /fit HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nX-Slow: "
HALF_A_BODY = HALF_A_HEAD + b"y\r\nContent-Length: 1000\r\n\r\n{"
SETTINGS = Settings()


class Echo(BaseHTTPRequestHandler):
    """A service that answers with the headers it was sent, and with a file of a page."""

    compressible: ClassVar = b"/* a style */ " * 200

    def do_GET(self) -> None:
        style = self.path.startswith("/static/")
        body = self.compressible if style else json.dumps(dict(self.headers)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/css; charset=utf-8" if style else "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", '"strong"')
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep the test's output clean."""


@pytest.fixture(scope="module")
def echo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The proxy in front of Echo."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Echo) as service:
        thread = Thread(target=service.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with proxy(service.server_port, tmp_path_factory.mktemp("echo")) as server:
            yield server
        service.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def served(sqlite: "Databases", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The proxy in front of the service, which has one worker with its four threads."""
    folder = tmp_path_factory.mktemp("served")
    with (
        sqlite.migrated() as url,
        gunicorn(url, folder / "service.log", KVQUOTE_WORKERS="1") as service,
        proxy(service.port, folder) as server,
    ):
        yield server


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The proxy without a service."""
    with proxy(free_port(), tmp_path_factory.mktemp("alone")) as server:
        yield server


def ask(server: Server, path: str, *headers: str, method: str = "GET", body: bytes = b"") -> Reply:
    lines = [f"{method} {path} HTTP/1.1", "Host: quotes.example", "Connection: close", *headers]
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return server.send("\r\n".join([*lines, "", ""]).encode() + body)


def problem(reply: Reply) -> dict[str, Any]:
    """A problem document, checked against the service's own table of kinds."""
    document: dict[str, Any] = json.loads(reply.body)
    kind = PROBLEM_TYPES[document["type"].removeprefix("/problems/")]

    assert reply.headers["Content-Type"] == "application/problem+json"
    assert set(document) == {"type", "title", "status", "detail", "request_id", "errors"}
    assert (document["title"], document["status"]) == (kind.title, reply.status)
    assert document["request_id"] == reply.headers["X-Request-ID"]
    return document


def test_nginx_takes_the_file_as_it_is_shipped(tmp_path: Path) -> None:
    done = subprocess.run(
        [NGINX, "-t", "-q", "-p", tmp_path, "-c", DEPLOY / "nginx.conf"], capture_output=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("sent", [HALF_A_HEAD, HALF_A_BODY, b""], ids=["half a head", "half a body", "nothing"])
def test_silent_clients_keep_nobody_waiting(served: Server, sent: bytes) -> None:
    with ExitStack() as open_connections:
        for _ in range(SILENT_CLIENTS):
            client = open_connections.enter_context(socket.create_connection(("127.0.0.1", served.port)))
            client.sendall(sent)
        time.sleep(0.3)
        began = time.monotonic()
        status = served.get("/livez").status
        took_seconds = time.monotonic() - began

    assert status == 200
    assert took_seconds < 2


def test_a_body_arrives_whole_though_it_came_in_pieces(served: Server) -> None:
    body = b'{"gpu": "a100-sxm-80gb", "nonsense": 1}'
    head = b"POST /fit HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", served.port), 10) as client:
        client.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body))
        for at in range(0, len(body), 10):
            client.sendall(body[at : at + 10])
            time.sleep(0.02)
        answer = b"".join(iter(lambda: client.recv(65536), b""))

    assert answer.startswith(b"HTTP/1.1 422 ")
    assert b"nonsense" in answer


def test_a_body_that_the_service_refuses_is_refused_by_the_service(served: Server) -> None:
    reply = ask(
        served, "/fit", "Content-Type: application/json", method="POST", body=b" " * (SETTINGS.max_body_bytes + 1)
    )

    assert reply.status == 413
    assert str(SETTINGS.max_body_bytes) in problem(reply)["detail"].replace(",", "")


def test_a_body_of_no_reasonable_size_never_reaches_the_service(served: Server) -> None:
    reply = ask(served, "/fit", "Content-Type: application/json", method="POST", body=b" " * (3 << 20))

    assert (reply.status, problem(reply)["type"]) == (413, "/problems/too-large")
    assert "proxy" in problem(reply)["detail"]


def test_its_limit_is_above_the_one_of_the_service() -> None:
    limit = re.search(r"client_max_body_size (\d+)m;", CONFIG)

    assert limit is not None
    assert int(limit[1]) << 20 > SETTINGS.max_body_bytes


def test_metrics_are_not_to_be_had_through_it(served: Server) -> None:
    assert problem(served.get("/metrics"))["type"] == "/problems/not-found"


def test_a_service_that_is_away_is_a_503_to_try_again(alone: Server) -> None:
    reply = alone.get("/fit")

    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")
    assert problem(reply)["errors"] == []


@pytest.mark.parametrize(
    "request_bytes, status",
    [
        (b"GET /\xff\x00 HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 8\r\nContent-Length: 9\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", 505),
        (b"TRACE / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 405),
        (b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 20_000 + b"\r\n\r\n", 431),
    ],
    ids=["zero byte", "no host", "two lengths", "version", "trace", "long address", "long header"],
)
def test_what_it_refuses_itself_is_a_problem(alone: Server, request_bytes: bytes, status: int) -> None:
    reply = alone.send(request_bytes)

    assert reply.status == status
    assert problem(reply)["detail"]


def test_the_page_of_its_own_problems_cannot_be_asked_for(served: Server) -> None:
    assert served.get("/-/problem").status == 404


def test_what_a_client_claims_about_itself_is_dropped(echo: Server) -> None:
    claims = (
        "X-Forwarded-For: 6.6.6.6",
        "X-Forwarded-Proto: https",
        "X-Forwarded-Host: evil",
        "Forwarded: for=6.6.6.6",
    )
    sent = json.loads(ask(echo, "/", *claims).body)

    assert sent["X-Forwarded-For"] == "127.0.0.1"
    assert sent["X-Forwarded-Proto"] == "http"
    assert {"X-Forwarded-Host", "Forwarded"}.isdisjoint(sent)
    assert sent["Host"] == "quotes.example"


def test_a_name_of_the_callers_own_is_kept(echo: Server) -> None:
    assert json.loads(ask(echo, "/", "X-Request-ID: mine-1").body)["X-Request-ID"] == "mine-1"


@pytest.mark.parametrize("name", ["", 'a"b', "x" * 65])
def test_a_name_that_is_not_safe_to_repeat_is_replaced(alone: Server, name: str) -> None:
    assert re.fullmatch("[0-9a-f]{32}", problem(ask(alone, "/", f"X-Request-ID: {name}"))["request_id"])


def test_only_the_files_of_pages_are_compressed(echo: Server) -> None:
    style, answer = (ask(echo, path, "Accept-Encoding: gzip") for path in ("/static/docs.css", "/fit"))

    assert style.headers["Content-Encoding"] == "gzip"
    assert len(style.body) < len(Echo.compressible)
    assert "Content-Encoding" not in answer.headers
    assert answer.headers["ETag"] == '"strong"'


def test_it_logs_what_it_answered_itself_and_leaves_the_rest_to_the_service(served: Server) -> None:
    served.get("/livez")
    ask(served, "/metrics", "X-Request-ID: to-be-logged")
    lines = [json.loads(line) for line in served.log.read_text().splitlines() if line.startswith("{")]

    assert {"event": "proxy_answered", "request_id": "to-be-logged", "status": 404}.items() <= lines[-1].items()
    assert {line["event"] for line in lines} == {"proxy_answered"}
