"""`/livez` and `/readyz`."""

from collections.abc import Callable
from threading import Event
from typing import TYPE_CHECKING

import pytest

from service.api import health
from tests.api.fakes import EmptyKeeper

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from tests.conftest import AppMaker


def failed(client: "FlaskClient") -> list[str]:
    response = client.get("/readyz")
    checks = response.get_json()["checks"]
    assert [check["name"] for check in checks] == ["database", "schema", "catalog"]
    wrong = [check["name"] for check in checks if check["status"] == "failed"]
    assert response.status_code == (503 if wrong else 200)
    assert all(bool(check["detail"]) == (check["name"] in wrong) for check in checks)
    return wrong


def test_a_process_that_answers_is_alive(client_with: Callable[..., "FlaskClient"]) -> None:
    response = client_with(EmptyKeeper()).get("/livez")

    assert (response.status_code, response.get_json()) == (200, {"status": "alive"})


def test_what_is_missing_is_said_whatever_tags_the_client_has(client_with: Callable[..., "FlaskClient"]) -> None:
    response = client_with(EmptyKeeper()).get("/readyz", headers={"If-None-Match": "*"})

    assert (response.status_code, response.get_json()["status"]) == (503, "unready")
    assert "ETag" not in response.headers


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_nobody_stores_that_a_service_was_well(client: "FlaskClient", path: str) -> None:
    first = client.get(path)
    again = client.get(path, headers={"If-None-Match": first.headers["ETag"]})

    assert (first.headers["Cache-Control"], again.headers["Cache-Control"]) == ("no-store", "no-store")
    assert (first.status_code, again.status_code) == (200, 304)


def test_a_service_with_everything_is_ready(client: "FlaskClient") -> None:
    assert failed(client) == []
    assert client.get("/readyz").get_json()["status"] == "ready"


def test_a_database_in_a_folder_that_is_missing_cannot_be_reached(make_app: "AppMaker") -> None:
    client = make_app("sqlite:////nowhere/at/all.db").test_client()

    assert failed(client) == ["database", "schema", "catalog"]


def test_a_database_without_its_tables_is_not_ready(empty_database_url: str, make_app: "AppMaker") -> None:
    assert failed(make_app(empty_database_url).test_client()) == ["schema", "catalog"]


def test_a_service_with_an_empty_catalog_is_not_ready(database_url: str, make_app: "AppMaker") -> None:
    assert failed(make_app(database_url).test_client()) == ["catalog"]


def test_a_database_that_is_slow_is_not_waited_for(client: "FlaskClient", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "DATABASE_SECONDS", 0.5)
    answered = Event()
    monkeypatch.setattr(health, "_schema_fault", lambda _: answered.wait(60) and None)

    assert failed(client) == ["schema"]
    answered.set()


def test_neither_may_be_cached(client: "FlaskClient") -> None:
    assert {client.get(path).headers["Cache-Control"] for path in ("/livez", "/readyz")} == {"no-store"}
