"""What only a real server shows: broken framing, refusals in mid-body, several processes, start and stop."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from service.storage.database import make_engine
from tests.api.asking import MEMBERS, QUESTION
from tests.api.gunicorn_server import Reply, Server, gunicorn
from tests.storage.entries import gpu_change, store

if TYPE_CHECKING:
    from tests.databases import Databases

GOOD = json.dumps(QUESTION).encode()
CHUNKED = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def server(sqlite: "Databases", tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    log = tmp_path_factory.mktemp("gunicorn") / "log"
    with sqlite.loaded() as url, gunicorn(url, log, KVQUOTE_WORKERS="2", KVQUOTE_THREADS="2") as running:
        yield running


def post(body: bytes = GOOD, length: bytes | None = None, headers: bytes = b"", path: bytes = b"/fit") -> bytes:
    if length is None:
        length = b"Content-Length: %d\r\n" % len(body)
    start = b"POST " + path + b" HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    return start + length + headers + b"Connection: close\r\n\r\n" + body


def chunks(*parts: bytes, extension: bytes = b"") -> bytes:
    return b"".join(b"%x" % len(part) + extension + b"\r\n" + part + b"\r\n" for part in parts) + b"0\r\n\r\n"


def problem(reply: Reply, status: int, name: str) -> None:
    assert reply.status == status, reply
    assert reply.headers["Content-Type"] == "application/problem+json"
    found = json.loads(reply.body)
    assert list(found) == MEMBERS
    assert found["type"] == f"/problems/{name}"


def test_it_works(server: Server) -> None:
    assert server.send(post()).status == 200
    assert server.send(post(chunks(GOOD[:9], GOOD[9:]), CHUNKED)).body == server.send(post()).body


@pytest.mark.parametrize(
    "request_",
    [
        post(length=b"Content-Length: -1\r\n"),
        post(length=b"Content-Length: +8\r\n"),
        post(length=b"Content-Length: 8\r\nContent-Length: 9\r\n"),
        post(headers=CHUNKED),
        post(headers=b"X-A: a\0b\r\n"),
        post(headers=b"X-A : 1\r\n"),
        post(headers=b"X-A: 1\r\n folded\r\n"),
        post().replace(b"\r\n", b"\n"),
        post(length=CHUNKED, body=b"zz\r\n"),
        b"\x16\x03\x01\x02\x00\r\n\r\n",
    ],
)
def test_broken_framing_is_refused(server: Server, request_: bytes) -> None:
    assert server.send(request_).status == 400


@pytest.mark.parametrize(
    "body",
    [
        chunks(GOOD, extension=b";\0=1"),
        b"%x\r\n" % len(GOOD) + GOOD + b"XX0\r\n\r\n",
    ],
)
def test_a_broken_chunk_is_the_requests_fault(server: Server, body: bytes) -> None:
    problem(server.send(post(body, CHUNKED)), 400, "malformed-request")


def test_a_request_without_a_host_is_refused(server: Server) -> None:
    problem(server.send(post().replace(b"Host: x\r\n", b"")), 400, "malformed-request")


def test_a_request_without_a_length_is_refused(server: Server) -> None:
    problem(server.send(post(b"", b"")), 411, "length-required")


def test_stacked_codings_are_refused(server: Server) -> None:
    assert server.send(post(chunks(GOOD), b"Transfer-Encoding: gzip, chunked\r\n")).status in range(400, 500)


@pytest.mark.parametrize("method", [b"FOO", b"TRACE", b"PUT"])
def test_a_method_that_is_not_taken_is_told_which_are(server: Server, method: bytes) -> None:
    reply = server.send(post().replace(b"POST", method, 1))

    problem(reply, 405, "method-not-allowed")
    assert "POST" in reply.headers["Allow"]


@pytest.mark.parametrize(
    "request_, status, name",
    [
        (post(path=b"/fit?" + b"a" * 9000), 414, "uri-too-long"),
        (post(path=b"/fit?" + b"a" * 2_000_000), 414, "uri-too-long"),
        (post(headers=b"X-A: " + b"a" * 9000 + b"\r\n"), 431, "headers-too-large"),
        (post(headers=b"".join(b"X-%d: 1\r\n" % n for n in range(150))), 431, "headers-too-large"),
        (post(headers=b"Expect: the-unexpected\r\n"), 417, "http-error"),
        (post(b"", b"Transfer-Encoding: frobnicate\r\n"), 501, "http-error"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "malformed-request"),
        (b"GET /fit HTTP/9.9\r\nHost: x\r\n\r\n", 400, "malformed-request"),
        (b"GET /fit HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n", 400, "malformed-request"),
        (b"GET /fit HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n", 400, "malformed-request"),
    ],
)
def test_what_the_server_itself_refuses_is_a_problem_too(
    server: Server, request_: bytes, status: int, name: str
) -> None:
    reply = server.send(request_)

    problem(reply, status, name)
    assert json.loads(reply.body)["request_id"] == reply.headers["X-Request-ID"]
    assert reply.headers["Cache-Control"] == "no-store"


def test_a_long_question_fits_a_query_string(server: Server) -> None:
    problem(server.send(post(path=b"/fit?" + b"a" * 7000)), 422, "validation-error")


@pytest.mark.parametrize("path", [b"/../../etc/passwd", b"/%00", b"//evil.example", b"/fit/"])
def test_a_path_that_leads_nowhere_is_not_found(server: Server, path: bytes) -> None:
    problem(server.send(post(path=path)), 404, "not-found")


@pytest.mark.parametrize("body, length", [(b"x" * (8 << 20), None), (chunks(b"x" * (8 << 20)), CHUNKED)])
def test_a_client_that_sends_too_much_is_told_so_and_not_reset(
    server: Server, body: bytes, length: bytes | None
) -> None:
    problem(server.send(post(body, length)), 413, "too-large")


def test_a_client_that_waits_with_a_huge_body_is_refused_at_once(server: Server) -> None:
    started = time.monotonic()

    reply = server.send(post(b"", b"Content-Length: 99999999999\r\n", b"Expect: 100-continue\r\n"))

    assert reply.body.startswith(b"HTTP/1.1 413") or reply.status == 413
    assert time.monotonic() - started < 5


def test_a_connection_is_kept_for_the_next_question(server: Server) -> None:
    kept = post().replace(b"Connection: close\r\n", b"")

    reply = server.send(kept + post())

    assert reply.body.count(b"HTTP/1.1 200 OK") == 1


def test_the_catalog_is_read_before_the_first_question(server: Server) -> None:
    reply = server.get("/readyz")

    assert (reply.status, json.loads(reply.body)["status"]) == (200, "ready")


def test_metrics_are_added_up_over_the_workers(server: Server) -> None:
    counter = 'kvquote_http_requests_total{method="GET",route="/problems/<name>",status="200"}'

    for _ in range(20):
        server.get("/problems/too-deep")

    lines = server.get("/metrics").body.decode().splitlines()
    assert f"{counter} 20.0" in lines
    assert any(line.startswith("kvquote_build_info{") for line in lines)


def test_every_line_of_the_log_is_json(server: Server) -> None:
    server.get("/fit?modle=x")

    lines = [json.loads(line) for line in server.log.read_text().splitlines()]

    assert {"gunicorn.error"} <= {line.get("logger") for line in lines}
    assert any(line["event"] == "http_request" and line["route"] == "/fit" for line in lines)


def test_a_worker_that_dies_is_replaced_and_its_counts_stay(sqlite: "Databases", tmp_path: Path) -> None:
    with sqlite.loaded() as url, gunicorn(url, tmp_path / "log", KVQUOTE_WORKERS="2") as running:
        for _ in range(5):
            running.get("/openapi.json")
        for pid in booted(running):
            os.kill(pid, signal.SIGKILL)
        replies = [running.get("/fit?model=llama-2-7b&gpu=a10") for _ in range(5)]
        counts = running.get("/metrics").body.decode()

    assert [reply.status for reply in replies] == [200] * 5
    assert 'kvquote_http_requests_total{method="GET",route="/openapi.json",status="200"} 5.0' in counts


def test_a_worker_in_the_place_of_another_begins_with_the_catalog_of_now(sqlite: "Databases", tmp_path: Path) -> None:
    settings = {"KVQUOTE_WORKERS": "1", "KVQUOTE_CATALOG_REFRESH_SECONDS": "3600"}
    with sqlite.loaded() as url, gunicorn(url, tmp_path / "log", **settings) as running:
        before = json.loads(running.get("/fit?model=llama-2-7b&gpu=a10").body)["catalog_revision"]
        # What a worker looks for when it begins, and its timer half a second later.
        time.sleep(1.5)
        add_gpu(url, "newer")
        (worker,) = booted(running)
        os.kill(worker, signal.SIGKILL)
        after = json.loads(running.get("/fit?model=llama-2-7b&gpu=newer").body)["catalog_revision"]

    assert after == before + 1


def add_gpu(url: str, name: str) -> None:
    engine = make_engine(url)
    store(engine, gpu_change(name))
    engine.dispose()


def booted(server: Server) -> list[int]:
    events = [json.loads(line)["event"] for line in server.log.read_text().splitlines()]
    return [int(event.rpartition(" ")[2]) for event in events if event.startswith("Booting worker")]


def test_a_reload_keeps_answering_and_counting(sqlite: "Databases", tmp_path: Path) -> None:
    with sqlite.loaded() as url, gunicorn(url, tmp_path / "log", KVQUOTE_WORKERS="2") as running:
        running.get("/openapi.json")
        running.process.send_signal(signal.SIGHUP)
        statuses = []
        for _ in range(20):
            statuses.append(running.get("/fit?model=llama-2-7b&gpu=a10").status)
            time.sleep(0.1)
        counts = running.get("/metrics").body.decode()

    assert set(statuses) == {200}
    assert 'route="/openapi.json",status="200"} 1.0' in counts


def test_workers_that_still_start_are_stopped_at_once(sqlite: "Databases", tmp_path: Path) -> None:
    with sqlite.loaded() as url:
        for number in range(3):
            with gunicorn(url, tmp_path / str(number), KVQUOTE_WORKERS="6") as running:
                running.process.terminate()
                # A worker that missed the signal would be waited for as long as those that finish an answer: 25 s.
                assert running.process.wait(15) == 0


def test_without_a_database_the_service_starts_and_says_so(tmp_path: Path) -> None:
    with gunicorn("sqlite:////nowhere/at/all.db", tmp_path / "log", KVQUOTE_WORKERS="1") as running:
        ready, asked = running.get("/readyz"), running.get("/fit?model=llama-2-7b&gpu=a10")

    assert ready.status == 503
    problem(asked, 503, "catalog-unavailable")
