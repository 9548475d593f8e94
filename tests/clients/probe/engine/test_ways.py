"""The ways in which engines are served: below a path, behind a token, packed, in chunks, and without their metrics."""

import gzip
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kvquote_probe.engine.detect import read_engine
from kvquote_probe.engine.site import EngineError, Site
from kvquote_probe.engine.telling import Told
from tests.clients.probe.engine.fake_engine import FakeEngine, Handler, fake_engine
from tests.clients.probe.engine.servers import RELEASES, VLLM_0_11, VLLM_0_24, Release, served

EACH = pytest.mark.parametrize("release", list(RELEASES.values()), ids=list(RELEASES))
PREFIX, TOKEN = "/models/chat", "sk-engine"


@pytest.fixture
def server() -> Iterator[FakeEngine]:
    with fake_engine() as server:
        yield server


def plain(handler: Handler, kind: str, body: bytes) -> None:
    handler.send(200, kind, body)


def packed(handler: Handler, kind: str, body: bytes) -> None:
    handler.send(200, kind, gzip.compress(body), {"Content-Encoding": "gzip"})


def in_chunks(handler: Handler, kind: str, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for start in range(0, len(body), 100):
        piece = body[start : start + 100]
        handler.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
    handler.wfile.write(b"0\r\n\r\n")


def below_a_path(server: FakeEngine, release: Release, way: Callable[..., None], closed: tuple[str, ...] = ()) -> None:
    """Serve a release below a path; every page but those of `closed` wants the token, as an ingress has it."""
    pages = {f"{PREFIX}{path}": page for path, page in served(release).items()}

    def answer(handler: Handler) -> None:
        if handler.headers.get("Authorization") != f"Bearer {TOKEN}" and handler.path not in closed:
            handler.send(401, "application/json", b'{"error": "Unauthorized"}')
        elif handler.path not in pages:
            handler.send(404, "text/html", b"<html>nothing here</html>")
        else:
            way(handler, *pages[handler.path])

    server.trouble = answer


def read(url: str, release: Release, token: str | None = TOKEN, engine: str | None = None) -> Any:  # noqa: ANN401
    site = Site(url, token)
    try:
        return read_engine(site, Told(uniform=release.uniform), engine)[0]
    finally:
        site.close()


@EACH
@pytest.mark.parametrize("way", [plain, packed, in_chunks])
@pytest.mark.parametrize("end", ["", "/"])
def test_an_engine_below_a_path_and_behind_a_token_is_read(
    server: FakeEngine, release: Release, way: Callable[..., None], end: str
) -> None:
    below_a_path(server, release, way)

    reading = read(f"{server.url}{PREFIX}{end}", release)
    assert (reading.values, reading.setup) == (release.values, release.setup)
    assert server.tokens == {f"Bearer {TOKEN}"}


@EACH
def test_without_the_token_it_is_asked_for(server: FakeEngine, release: Release) -> None:
    below_a_path(server, release, plain)

    with pytest.raises(EngineError, match="KVQUOTE_ENGINE_TOKEN"):
        read(f"{server.url}{PREFIX}", release, token=None)


@pytest.mark.parametrize("engine", [None, "vllm"])
@pytest.mark.parametrize("release", [VLLM_0_11, VLLM_0_24], ids=["0.11", "0.24"])
def test_the_metrics_of_vllm_need_no_key_and_suffice(server: FakeEngine, release: Release, engine: str | None) -> None:
    below_a_path(server, release, plain, closed=(f"{PREFIX}/metrics", f"{PREFIX}/version"))

    reading = read(f"{server.url}{PREFIX}", release, token=None, engine=engine)
    assert reading.values == release.values
    assert "model" not in reading.setup


@pytest.mark.parametrize("status", [404, 503])
@pytest.mark.parametrize("release", [VLLM_0_11, VLLM_0_24], ids=["0.11", "0.24"])
def test_metrics_that_are_switched_off_are_missed(server: FakeEngine, release: Release, status: int) -> None:
    pages = served(release)

    def answer(handler: Handler) -> None:
        found = pages.get(handler.path) if handler.path != "/metrics" else None
        handler.send(*((200, *found) if found else (status, "text/plain", b"")))

    server.trouble = answer
    with pytest.raises(EngineError, match="--disable-log-stats" if status == 404 else "HTTP 503"):
        read(server.url, release)


def test_a_bomb_is_no_page(server: FakeEngine) -> None:
    bomb = gzip.compress(b" " * 50_000_000)
    server.trouble = lambda handler: handler.send(200, "application/json", bomb, {"Content-Encoding": "gzip"})

    with pytest.raises(EngineError, match="more than 8 MiB"):
        read(server.url, VLLM_0_24)


def test_a_token_goes_nowhere_else(server: FakeEngine) -> None:
    with fake_engine() as other:
        server.trouble = lambda handler: handler.send(302, "text/html", b"", {"Location": f"{other.url}/metrics"})
        with pytest.raises(EngineError):
            read(server.url, VLLM_0_24)
        assert other.asked == []
