"""Whatever goes wrong, the answer is a problem of one shape, of a kind that the service explains."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest
from flask import abort
from sqlalchemy.exc import DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException, ImATeapot, TooManyRequests, Unauthorized
from werkzeug.test import Client

from service.api.problem_types import PROBLEM_TYPES
from service.domain import errors
from tests.api.asking import QUESTION, problem
from tests.api.fakes import EmptyKeeper

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient

FailingClient = Callable[[Exception], "FlaskClient"]
AWAY = [
    OperationalError("SELECT secret", {}, Exception("password=hunter2")),
    InterfaceError("SELECT secret", {}, Exception("password=hunter2")),
    DisconnectionError("password=hunter2"),
    PoolTimeoutError("password=hunter2"),
]


def refusals(kind: type[errors.QuoteError] = errors.QuoteError) -> Iterator[type[errors.QuoteError]]:
    for found in kind.__subclasses__():
        yield found
        yield from refusals(found)


@pytest.mark.parametrize("path", ["/fit/", "/nothing", "//evil.com", "/%00", "/..%2f..%2fetc%2fpasswd", "/Fit", "/."])
def test_a_path_that_leads_nowhere_is_not_found_and_not_redirected(client: "FlaskClient", path: str) -> None:
    # As a server passes it on: the client of the tests would take what follows two slashes for a host.
    problem(client.get("/fit", environ_overrides={"PATH_INFO": path}), 404, "not-found")


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "FOO"])
def test_a_method_that_is_not_taken_is_told_which_are(client: "FlaskClient", method: str) -> None:
    response = client.open("/fit", method=method)

    problem(response, 405, "method-not-allowed")
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}


@pytest.mark.parametrize("accept", ["application/xml", "text/html", "application/json;q=0", "text/*;q=0.5, image/png"])
def test_an_answer_that_the_client_cannot_read_is_not_computed(client: "FlaskClient", accept: str) -> None:
    problem(client.get("/fit", query_string=QUESTION, headers={"Accept": accept}), 406, "not-acceptable")


@pytest.mark.parametrize(
    "accept", ["", "*/*", "application/*", "text/html, */*;q=0.1", "application/json", "text/x, application/json"]
)
def test_an_answer_that_the_client_can_read_is_given(client: "FlaskClient", accept: str) -> None:
    assert client.get("/fit", query_string=QUESTION, headers={"Accept": accept}).status_code == 200


def test_a_request_without_a_host_is_refused(app: "Flask") -> None:
    def without_host(environ: dict[str, object], start: Callable[..., object]) -> object:
        return app.wsgi_app({key: value for key, value in environ.items() if key != "HTTP_HOST"}, start)  # type: ignore[arg-type]

    problem(Client(without_host).get("/livez"), 400, "malformed-request")  # type: ignore[arg-type]


def test_without_a_catalog_the_answer_is_to_ask_again(client_with: Callable[..., "FlaskClient"]) -> None:
    response = client_with(EmptyKeeper()).get("/fit", query_string=QUESTION)

    problem(response, 503, "catalog-unavailable")
    assert response.headers["Retry-After"] == "1"


@pytest.mark.parametrize("error", AWAY, ids=lambda error: type(error).__name__)
def test_a_database_that_is_away_is_no_fault_of_the_service(
    client_that_fails_with: FailingClient, error: Exception
) -> None:
    response = client_that_fails_with(error).get("/fit", query_string=QUESTION)

    problem(response, 503, "database-unavailable")
    assert response.headers["Retry-After"] == "1"
    assert "hunter2" not in response.text


def test_a_fault_of_the_service_tells_nothing_but_where_to_look(client_that_fails_with: FailingClient) -> None:
    response = client_that_fails_with(RuntimeError("hunter2")).get("/fit", query_string=QUESTION)

    assert problem(response, 500, "internal-error")["errors"] == []
    assert "hunter2" not in response.text


@pytest.mark.parametrize("kind", list(refusals()), ids=lambda kind: kind.code)
def test_every_refusal_of_the_domain_has_a_kind(
    client_that_fails_with: FailingClient, kind: type[errors.QuoteError]
) -> None:
    error = kind(errors.Fault("/gpu", "This is why.", ("a10",)), errors.Fault("/model", "So is this."))

    found = problem(
        client_that_fails_with(error).post("/fit", json=QUESTION), PROBLEM_TYPES[kind.code].status, kind.code
    )

    assert found["detail"] == "This is why. (1 more under errors.)"
    assert found["errors"][0] == {"pointer": "/gpu", "detail": "This is why.", "nearest": ["a10"]}


def test_the_headers_of_an_http_error_are_kept(client_that_fails_with: FailingClient) -> None:
    unauthorized = client_that_fails_with(Unauthorized(www_authenticate=None)).get("/fit", query_string=QUESTION)
    limited = client_that_fails_with(TooManyRequests(retry_after=7)).get("/fit", query_string=QUESTION)

    problem(unauthorized, 401, "http-error")
    problem(limited, 429, "http-error")
    assert limited.headers["Retry-After"] == "7"


def test_an_http_error_that_brings_its_own_answer_keeps_it(client_that_fails_with: FailingClient, app: "Flask") -> None:
    with pytest.raises(HTTPException) as raised:
        abort(app.response_class("as it is", 299))

    assert client_that_fails_with(raised.value).get("/fit", query_string=QUESTION).text == "as it is"


def test_a_status_without_a_kind_of_its_own_says_what_it_is(client_that_fails_with: FailingClient) -> None:
    found = problem(client_that_fails_with(ImATeapot()).get("/fit", query_string=QUESTION), 418, "http-error")

    assert "teapot" in found["detail"]


@pytest.mark.parametrize("name", PROBLEM_TYPES)
def test_every_kind_of_problem_is_explained_at_its_type(client: "FlaskClient", name: str) -> None:
    kind = PROBLEM_TYPES[name]

    page = client.get(kind.uri).get_json()

    assert page["type"] == kind.uri
    assert page["status"] == kind.status
    assert page["meaning"]
    assert page["way_out"]


def test_a_kind_that_is_none_is_not_found(client: "FlaskClient") -> None:
    found = problem(client.get("/problems/too-deeep"), 404, "not-found")

    assert found["errors"][0]["nearest"][0] == "too-deep"
