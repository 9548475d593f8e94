"""The layer around the application: it names, counts and logs each request, also where the application fails."""

from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

import pytest
from werkzeug.test import Client

from service.telemetry import metrics
from service.telemetry.observing import CONSTANT_HEADERS, Observed

Line = MutableMapping[str, object]
Application = Callable[..., Iterable[bytes]]


def answering(status: str) -> Application:
    def application(_: dict[str, Any], start: Callable[..., object]) -> list[bytes]:
        start(status, [("Content-Type", "text/plain")])
        return [b"x"]

    return application


def observed(application: Application, route: str | None = "/route") -> tuple[Client, list[Line]]:
    written: list[Line] = []
    return Client(Observed(application, lambda _: route, written.append)), written


def counted(method: str, route: str, status: str) -> float:
    labels = {"method": method, "route": route, "status": status}
    return metrics.OWN.get_sample_value("kvquote_http_requests_total", labels) or 0


def test_a_request_makes_one_line() -> None:
    client, written = observed(answering("201 CREATED"))

    client.post(
        "/route?token=secret", headers={"X-Request-ID": "mine", "User-Agent": "secret", "Authorization": "secret"}
    )

    (line,) = written
    assert line.pop("duration_seconds") >= 0  # type: ignore[operator]
    assert line == {"request_id": "mine", "method": "POST", "route": "/route", "status": 201}


def test_a_request_of_a_trace_says_so() -> None:
    client, written = observed(answering("200 OK"))
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"

    client.get("/", headers={"traceparent": f"00-{trace}-00f067aa0ba902b7-01"})

    assert written[0]["trace_id"] == trace


@pytest.mark.parametrize("route", ["/livez", "/readyz"])
def test_health_is_counted_and_not_logged(route: str) -> None:
    before = counted("GET", route, "200")
    client, written = observed(answering("200 OK"), route)

    client.get(route)

    assert written == []
    assert counted("GET", route, "200") == before + 1


def test_a_path_without_a_route_is_counted_under_one_name() -> None:
    before = counted("GET", "unmatched", "404")

    observed(answering("404 NOT FOUND"), None)[0].get("/secret")

    assert counted("GET", "unmatched", "404") == before + 1


def test_a_method_that_nobody_knows_is_counted_under_one_name() -> None:
    before = counted("other", "/route", "405")

    observed(answering("405 METHOD NOT ALLOWED"))[0].open("/", method="SECRET")

    assert counted("other", "/route", "405") == before + 1


def test_an_application_that_fails_is_counted_and_logged() -> None:
    def failing(*_: object) -> list[bytes]:
        raise RuntimeError("broken")

    client, written = observed(failing)
    before = counted("GET", "unmatched", "500")

    with pytest.raises(RuntimeError, match="broken"):
        client.get("/")

    assert counted("GET", "unmatched", "500") == before + 1
    assert written[0]["status"] == 500


def test_every_answer_carries_the_constant_headers_and_its_name() -> None:
    response = observed(answering("200 OK"))[0].get("/")

    assert set(CONSTANT_HEADERS) <= set(response.headers)
    assert len(response.headers["X-Request-ID"]) == 32


def test_without_an_access_log_nothing_is_written() -> None:
    client = Client(Observed(answering("200 OK"), lambda _: "/route", None))

    assert client.get("/").status_code == 200
