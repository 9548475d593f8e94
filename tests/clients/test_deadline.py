"""A whole call ends in time, whatever the other side does; and what is sent has the time that it needs."""

import gzip
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from kvquote_client import BadAnswer, Client, InvalidInput, Transport, Unavailable, Unreachable
from kvquote_client import transport as transport_module
from tests.clients.faulty import Faulty, Say, good, problem, reply

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
HALF_A_SECOND = 0.5
DRIBBLED_SECONDS = 20


def dribbled(begin: bytes, each: bytes, seconds: float = 0.05) -> Say:
    """A reply that goes on for ever, a little at a time."""

    def say(wire: socket.socket) -> None:
        wire.sendall(begin)
        for _ in range(int(DRIBBLED_SECONDS / seconds)):
            wire.sendall(each)
            time.sleep(seconds)

    return say


ENDLESS: dict[str, Say] = {
    "a head": dribbled(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "a body": dribbled(HEAD + b"Content-Length: 4000\r\n\r\n", b" "),
    "chunks": dribbled(HEAD + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    "a body without a length": dribbled(HEAD + b"Connection: close\r\n\r\n", b" "),
    "provisional answers": dribbled(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "a refusal": dribbled(b"HTTP/1.1 500 No\r\nContent-Length: 4000\r\n\r\n", b" "),
}


@pytest.mark.parametrize("which", sorted(ENDLESS))
def test_what_comes_for_ever_is_given_up(faulty: Faulty, which: str) -> None:
    faulty.says(ENDLESS[which])

    started = time.monotonic()
    with (
        pytest.raises(Unreachable, match=r"not answered whole within 0\.5 s"),
        Transport(faulty.url, timeout=10, deadline=HALF_A_SECOND) as transport,
    ):
        transport.request("GET", "/x")
    assert time.monotonic() - started < DRIBBLED_SECONDS / 2
    assert len(faulty.asked) == 1


def test_the_next_call_has_its_own_time(faulty: Faulty) -> None:
    faulty.says(ENDLESS["a body"], good({"a": 1}))

    with Transport(faulty.url, deadline=HALF_A_SECOND, retries=0) as transport:
        with pytest.raises(Unreachable):
            transport.request("GET", "/x")
        assert transport.request("GET", "/x").body == {"a": 1}


def test_a_wait_that_the_time_has_no_room_for_is_not_begun(faulty: Faulty) -> None:
    faulty.says(problem(503, Retry_After="5"), good({}))

    with pytest.raises(Unavailable) as caught, Transport(faulty.url, deadline=3) as transport:
        transport.request("GET", "/x")
    assert len(faulty.asked) == 1
    assert caught.value.retry_after_seconds == 5


def test_tries_share_the_time(faulty: Faulty) -> None:
    faulty.says(dribbled(b"", b"", 0.3))

    started = time.monotonic()
    with pytest.raises(Unreachable), Transport(faulty.url, timeout=0.4, deadline=1, retries=50) as transport:
        transport.request("GET", "/x")
    assert time.monotonic() - started < DRIBBLED_SECONDS / 2


@pytest.fixture
def slow_reader() -> Iterator[str]:
    """A server behind a slow line: some seconds for a body of 4 MB, and then an answer."""
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        thread = threading.Thread(target=take_slowly, args=(listening,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(10)


def take_slowly(listening: socket.socket) -> None:
    wire, _ = listening.accept()
    with wire, wire.makefile("rb") as came:
        length = 0
        while (line := came.readline().strip().lower()) != b"":
            length = int(line.partition(b": ")[2]) if line.startswith(b"content-length") else length
        while length > 0:
            length -= len(came.read(min(length, 1 << 17)))
            time.sleep(0.05)
        good({"rows": 1})(wire)


def test_a_large_body_has_longer_than_the_time_to_connect(slow_reader: str) -> None:
    started = time.monotonic()
    with Transport(slow_reader, timeout=(0.5, 20), retries=0) as transport:
        answer = transport.request("POST", "/x", data=b"x" * 8_000_000)
    assert answer.body == {"rows": 1}
    assert time.monotonic() - started > 0.5


def test_a_body_that_is_not_taken_is_given_up() -> None:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        started = time.monotonic()
        with pytest.raises(Unreachable), Transport(url, timeout=(5, 600), deadline=0.5, retries=0) as transport:
            transport.request("POST", "/x", data=b"x" * 50_000_000)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e300, None, "5", True])
@pytest.mark.parametrize("which", ["timeout", "deadline"])
def test_what_is_no_time_to_wait_is_said_at_once(which: str, seconds: object) -> None:
    with pytest.raises(InvalidInput, match="no time to wait"):
        Transport("http://a", **{which: seconds})  # type: ignore[arg-type]


def packed(size: int) -> bytes:
    return gzip.compress(b'"' + b" " * size + b'"')


BAD: dict[str, Callable[[], Say]] = {
    "a bomb": lambda: reply(200, packed(70_000_000), Content_Encoding="gzip"),
    "a bomb in a refusal": lambda: reply(400, packed(70_000_000), Content_Encoding="gzip"),
    "no gzip": lambda: reply(200, b"{}", Content_Encoding="gzip"),
    "early hints for ever": lambda: reply(103, b""),
}


@pytest.mark.parametrize("which", sorted(BAD))
def test_what_is_packed_badly_is_no_answer(faulty: Faulty, which: str) -> None:
    faulty.says(BAD[which]())

    with pytest.raises(BadAnswer), Client(faulty.url) as client:
        client.fit(model="m", gpu="g")
    assert len(faulty.asked) == 1


def test_a_packed_answer_is_read(faulty: Faulty) -> None:
    faulty.says(reply(200, gzip.compress(json.dumps({"a": 1}).encode()), Content_Encoding="gzip"))

    with Transport(faulty.url) as transport:
        assert transport.request("GET", "/x").body == {"a": 1}


@pytest.mark.parametrize("proxy", ["socks9://127.0.0.1:1", "://", "http://[::1"])
def test_a_proxy_that_cannot_be_is_tried_once(proxy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", proxy)
    waits: list[float] = []
    monkeypatch.setattr(transport_module, "time", SimpleNamespace(sleep=waits.append))

    with pytest.raises((Unreachable, InvalidInput)), Transport("http://a.example") as transport:
        transport.request("GET", "/x")
    assert waits == []


def test_a_proxy_is_not_asked_for_this_machine_over_https_either(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    url = faulty.url.replace("http:", "https:")

    with pytest.raises(Unreachable) as caught, Transport(url) as transport:
        transport.request("GET", "/x")
    assert "proxy" not in str(caught.value)


@pytest.mark.parametrize("host", ["127.example.com", "localhost.example", "a127.0.0.1"])
def test_what_only_looks_like_this_machine_is_asked_through_the_proxy(
    host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")

    with pytest.raises(Unreachable, match="the proxy before"), Transport(f"http://{host}", retries=0) as transport:
        transport.request("GET", "/x")
