"""What the transport does when a service, or what stands for it, does not answer as it should."""

import time
from datetime import datetime
from types import SimpleNamespace

import pytest

from kvquote_client import (
    BadAnswer,
    Client,
    Conflict,
    InvalidInput,
    NotAllowed,
    NotFound,
    Refused,
    Transport,
    Unavailable,
    Unreachable,
)
from kvquote_client import transport as transport_module
from tests.clients.faulty import Faulty, Say, good, half, problem, reply, reset, silent

ROW = {"max_sequences": 3, "ledger": {"memory_bytes": 1, "overcommitted_bytes": 0, "parts": []}}
PASSING: dict[str, Say] = {
    "503": problem(503, Retry_After="0"),
    "429": problem(429, Retry_After="0"),
    "502": reply(502, b"<html>bad gateway</html>", "text/html"),
    "504": problem(504),
    "a reset": reset,
    "half a reply": half(ROW),
}


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits between tries, which are written down and not waited for."""
    waited: list[float] = []
    monkeypatch.setattr(transport_module, "time", SimpleNamespace(sleep=waited.append))
    return waited


def asked(faulty: Faulty, method: str = "GET", **how: object) -> object:
    with Transport(faulty.url, timeout=5) as transport:
        return transport.request(method, "/x", **how).body  # type: ignore[arg-type]


@pytest.mark.parametrize("fault", sorted(PASSING))
def test_what_may_pass_is_asked_again(faulty: Faulty, fault: str, waits: list[float]) -> None:
    faulty.says(PASSING[fault], PASSING[fault], good(ROW))

    with Client(faulty.url) as client:
        assert client.fit(model="m", gpu="g").max_sequences == 3
    assert len({request.body for request in faulty.asked}) == 1
    assert len(faulty.asked) == 3
    assert len(waits) == 2


@pytest.mark.parametrize("fault", sorted(PASSING))
def test_tries_end(faulty: Faulty, fault: str) -> None:
    faulty.says(PASSING[fault])

    with pytest.raises((Unavailable, Unreachable)), Transport(faulty.url, retries=2) as transport:
        transport.request("GET", "/x")
    assert len(faulty.asked) == 3


def test_waits_grow_and_are_spread(faulty: Faulty, waits: list[float]) -> None:
    faulty.says(reset)
    for _ in range(2):
        with pytest.raises(Unreachable), Transport(faulty.url, retries=4) as transport:
            transport.request("GET", "/x")
    first, second = waits[:4], waits[4:]

    assert first != second
    assert [0.1 * 2**n <= wait <= 0.3 * 2**n for n, wait in enumerate(first)] == [True] * 4


def test_retry_after_is_waited_for(faulty: Faulty, waits: list[float]) -> None:
    faulty.says(problem(503, Retry_After="7"), good({}))

    assert asked(faulty) == {}
    assert 7 <= waits[0] < 8


@pytest.mark.parametrize("seconds", ["3600", "9" * 400], ids=["an-hour", "for-ever"])
def test_a_retry_after_that_is_too_long_is_left_to_the_caller(faulty: Faulty, seconds: str, waits: list[float]) -> None:
    faulty.says(problem(429, Retry_After=seconds))

    with pytest.raises(Unavailable) as caught:
        asked(faulty)
    assert (caught.value.retry_after_seconds or 0) >= 3600
    assert waits == []


@pytest.mark.parametrize("header", ["soon", "", "-1", "Wed, 99 Foo 2026 00:00:00 GMT"])
def test_a_retry_after_that_cannot_be_read_does_no_harm(faulty: Faulty, header: str, waits: list[float]) -> None:
    faulty.says(problem(503, Retry_After=header), good({}))

    assert asked(faulty) == {}
    assert waits[0] < 1


@pytest.mark.parametrize("fault", ["502", "504", "a reset", "half a reply"])
def test_what_may_have_been_done_is_not_done_again(faulty: Faulty, fault: str) -> None:
    faulty.says(PASSING[fault], good({}))

    with pytest.raises((Unavailable, Unreachable)):
        asked(faulty, "PUT", json={})
    assert len(faulty.asked) == 1


@pytest.mark.parametrize("status", [429, 503])
def test_what_was_certainly_not_done_is_asked_again(faulty: Faulty, status: int) -> None:
    faulty.says(problem(status), good({}))

    assert asked(faulty, "PUT", json={}) == {}


def test_a_500_is_not_asked_again(faulty: Faulty) -> None:
    faulty.says(problem(500), good({}))

    with pytest.raises(Unavailable, match="500"):
        asked(faulty)
    assert len(faulty.asked) == 1


@pytest.mark.parametrize(
    "status, kind",
    [
        (400, Refused),
        (401, NotAllowed),
        (403, NotAllowed),
        (404, NotFound),
        (409, Conflict),
        (412, Conflict),
        (413, Refused),
        (422, Refused),
        (428, Conflict),
        (500, Unavailable),
    ],
)
def test_a_refusal_carries_the_problem_and_the_request_id(faulty: Faulty, status: int, kind: type[Refused]) -> None:
    faulty.says(problem(status, {"title": "T", "request_id": "r7", "later": [1], "errors": [{"pointer": "/a"}]}))

    with pytest.raises(kind) as caught:
        asked(faulty)
    assert type(caught.value) is kind
    assert caught.value.status == status
    assert caught.value.request_id == "r7"
    assert caught.value.problem["later"] == [1]
    assert "T" in str(caught.value)
    assert "r7" in str(caught.value)


@pytest.mark.parametrize(
    "document",
    [[], "text", {"title": 5, "detail": None, "errors": "no", "request_id": 7}, {"errors": [1, {"nearest": 5}]}, {}],
)
def test_a_problem_of_any_shape_is_a_refusal(faulty: Faulty, document: object) -> None:
    faulty.says(problem(422, document or [[]], X_Request_ID="from-header"))

    with pytest.raises(Refused) as caught:
        asked(faulty)
    assert str(caught.value)
    assert isinstance(caught.value.errors, list)


def test_a_refusal_that_is_no_json_has_the_header_s_request_id(faulty: Faulty) -> None:
    faulty.says(reply(400, b"{broken", X_Request_ID="r9"))

    with pytest.raises(Refused) as caught:
        asked(faulty)
    assert caught.value.request_id == "r9"
    assert caught.value.problem == {}


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(reply(200, b"<html>login</html>", "text/html"), id="html"),
        pytest.param(reply(200, b'{"max_seq'), id="broken-json"),
        pytest.param(reply(200, b"[" * 200_000), id="deep-json"),
        pytest.param(reply(200, b"\xff\xfe"), id="no-text"),
        pytest.param(reply(200, b'{"max_sequences": NaN, "ledger": {}}'), id="nan"),
        pytest.param(good({"max_sequences": "3", "ledger": {}}), id="a-text-for-a-number"),
        pytest.param(good({"max_sequences": 3, "ledger": {}, "warnings": [5]}), id="a-number-for-a-text"),
        pytest.param(good([]), id="a-list"),
        pytest.param(good({"ok": True}), id="another-service"),
        pytest.param(reply(200, b""), id="nothing"),
        pytest.param(reply(204, b""), id="no-content"),
        pytest.param(good({"max_sequences": 1, "ledger": {"parts": {"a": 1}}}), id="another-shape"),
        pytest.param(good({"max_sequences": 1, "ledger": 5}), id="a-number-for-an-object"),
    ],
)
def test_what_is_no_answer_of_the_service_is_called_so(faulty: Faulty, said: Say) -> None:
    faulty.says(said)

    with pytest.raises(BadAnswer), Client(faulty.url) as client:
        client.fit(model="m", gpu="g")


def test_a_redirect_is_not_followed_for_it_would_lose_the_question(faulty: Faulty) -> None:
    faulty.says(reply(301, b"", Location="https://elsewhere.example/fit"))

    with pytest.raises(BadAnswer, match=r"elsewhere\.example"), Client(faulty.url) as client:
        client.fit(model="m", gpu="g")
    assert len(faulty.asked) == 1


def test_a_silent_server_is_given_up(faulty: Faulty) -> None:
    faulty.says(silent(30))

    started = time.monotonic()
    with pytest.raises(Unreachable, match="timed out"), Transport(faulty.url, timeout=0.2, retries=1) as transport:
        transport.request("GET", "/x")
    assert time.monotonic() - started < 5


def test_an_answer_that_never_ends_is_given_up(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport_module, "_LARGEST_ANSWER_BYTES", 1000)
    faulty.says(reply(200, b"x" * 2000, "text/plain"))

    with pytest.raises(BadAnswer, match="more than"):
        asked(faulty)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://nowhere.invalid"])
def test_a_host_that_is_not_there_is_unreachable(url: str) -> None:
    with pytest.raises(Unreachable) as caught, Transport(url, retries=0) as transport:
        transport.request("PUT", "/x", json={})
    assert caught.value.not_begun
    assert url in str(caught.value)
    assert "(host=" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://a",
        "http://",
        "http://[::1",
        "http://a:x",
        "http://a:99999",
        "http://a/?q=1",
        "http:///x",
        "http://a#",
        "http://a?",
        "http://a\\b",
        "http://a b",
        " http://a",
        "http://a\n",
        "http://a:0",
    ],
)
def test_what_is_no_address_is_said_at_once(url: str) -> None:
    with pytest.raises(InvalidInput):
        Transport(url)


def test_an_address_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(InvalidInput) as caught:
        Transport("https://me:secret@host")
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", " ", "a\nb", "a b\n", "ключ"])
def test_what_is_no_token_is_said_at_once(token: str) -> None:
    with pytest.raises(InvalidInput):
        Transport("http://a", token)


def test_the_token_is_sent_whatever_netrc_says(
    faulty: Faulty, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path_factory.mktemp("home") / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password other\n")
    monkeypatch.setenv("NETRC", str(netrc))
    faulty.says(good({}))
    with Transport(faulty.url, "kvq_x_y") as transport:
        transport.session.trust_env = True
        transport.request("GET", "/x")

    assert faulty.asked[0].headers["Authorization"] == "Bearer kvq_x_y"


def test_a_proxy_is_not_asked_for_what_only_this_machine_sees(faulty: Faulty, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    faulty.says(good({"a": 1}))

    assert asked(faulty) == {"a": 1}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(float("nan"), id="nan"),
        pytest.param(float("inf"), id="infinity"),
        pytest.param("\ud800", id="half-a-character"),
        pytest.param(object(), id="an-object"),
        pytest.param({1j: 2}, id="a-key-that-is-no-text"),
        pytest.param(datetime(2026, 1, 1), id="a-time-without-offset"),  # noqa: DTZ001 - that is the point
    ],
)
def test_what_json_does_not_know_is_never_sent(faulty: Faulty, value: object) -> None:
    faulty.says(good({}))

    with pytest.raises(InvalidInput):
        asked(faulty, "POST", json={"a": value})
    assert faulty.asked == []


def test_a_proxy_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://me:secret@127.0.0.1:1")

    with pytest.raises(Unreachable, match="the proxy before") as caught, Transport("http://a.example") as transport:
        transport.request("GET", "/x")
    assert "secret" not in str(caught.value)


def test_a_closed_transport_opens_again(faulty: Faulty) -> None:
    faulty.says(good({"a": 1}))
    transport = Transport(faulty.url)
    transport.close()

    assert transport.request("GET", "/x").body == {"a": 1}
    transport.close()
