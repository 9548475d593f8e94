"""How the application is wired."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from service.storage.database import DatabaseUrlError
from tests.api.asking import QUESTION
from tests.api.fakes import EmptyKeeper

if TYPE_CHECKING:
    from pathlib import Path

    from flask.testing import FlaskClient

    from tests.conftest import AppMaker

ClientMaker = Callable[..., "FlaskClient"]
ORIGIN = "https://grafana.example"


def test_making_an_application_touches_no_database(client_with: ClientMaker, tmp_path: "Path") -> None:
    client_with().get("/livez")

    assert list(tmp_path.iterdir()) == []


def test_a_database_that_cannot_be_used_is_told_at_once(make_app: "AppMaker") -> None:
    with pytest.raises(DatabaseUrlError):
        make_app("sqlite:///:memory:")


def test_the_first_question_reads_the_catalog(loaded_database_url: str, make_app: "AppMaker") -> None:
    client = make_app(loaded_database_url).test_client()

    assert client.get("/fit", query_string=QUESTION).status_code == 200


def test_without_a_database_each_question_tries_once(client_with: ClientMaker) -> None:
    keeper = EmptyKeeper()
    client = client_with(keeper)

    assert [client.get("/fit", query_string=QUESTION).status_code for _ in range(2)] == [503, 503]
    assert keeper.refreshes == 2


def test_every_answer_forbids_what_pages_could_do_with_it(client: "FlaskClient") -> None:
    for path in ("/livez", "/nothing", "/openapi.json"):
        headers = client.get(path).headers
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["X-Frame-Options"] == "DENY"
        assert "default-src 'self'" in headers["Content-Security-Policy"]


@pytest.mark.parametrize("path", ["/livez", "/nothing", "/fit?modle=x"])
def test_every_answer_names_its_request(client: "FlaskClient", path: str) -> None:
    assert client.get(path, headers={"X-Request-ID": "mine-1"}).headers["X-Request-ID"] == "mine-1"
    assert len(client.get(path).headers.getlist("X-Request-ID")) == 1


def test_no_host_of_a_client_is_repeated(client: "FlaskClient") -> None:
    for path in ("/openapi.json", "/fit/", "/livez"):
        response = client.get(path, headers={"Host": "evil.example"})
        assert "evil.example" not in response.text + str(response.headers)


def test_no_origin_is_allowed_unless_it_was_set(client: "FlaskClient") -> None:
    for response in (
        client.get("/livez", headers={"Origin": ORIGIN}),
        client.options("/fit", headers={"Origin": ORIGIN, "Access-Control-Request-Method": "POST"}),
    ):
        assert not [name for name, _ in response.headers if name.startswith("Access-Control")]


def test_an_allowed_origin_may_read_the_headers_it_needs(client_with: ClientMaker) -> None:
    client = client_with(EmptyKeeper(), cors_origins=(ORIGIN,))

    response = client.get("/livez", headers={"Origin": ORIGIN})

    assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert set(response.headers["Access-Control-Expose-Headers"].split(", ")) == {
        "ETag",
        "Link",
        "Location",
        "Retry-After",
        "WWW-Authenticate",
        "X-Request-ID",
    }
    assert "Access-Control-Allow-Credentials" not in response.headers


def test_an_allowed_origin_may_post_json(client_with: ClientMaker) -> None:
    client = client_with(EmptyKeeper(), cors_origins=(ORIGIN,))
    asked = {
        "Origin": ORIGIN,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type",
    }

    response = client.options("/fit", headers=asked)

    assert response.headers["Access-Control-Allow-Origin"] == ORIGIN
    assert "POST" in response.headers["Access-Control-Allow-Methods"]
    assert response.headers["Access-Control-Allow-Headers"].lower() == "content-type"


def test_another_origin_is_still_not_allowed(client_with: ClientMaker) -> None:
    client = client_with(EmptyKeeper(), cors_origins=(ORIGIN,))

    response = client.get("/livez", headers={"Origin": "https://evil.example"})

    assert "Access-Control-Allow-Origin" not in response.headers
