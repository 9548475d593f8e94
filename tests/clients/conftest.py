"""A service to ask, a server that fails, and no settings of whoever runs the tests."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from kvquote_client import Client
from tests.clients.faulty import Faulty, faulty_server
from tests.clients.serving import served

if TYPE_CHECKING:
    from flask import Flask


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KVQUOTE_URL", "KVQUOTE_TOKEN", "NO_COLOR", "COLUMNS", "TERM"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def service_url(app: "Flask") -> Iterator[str]:
    """The real application with the whole catalog, for tests that only read."""
    with served(app) as url:
        yield url


@pytest.fixture
def kvquote(service_url: str) -> Iterator[Client]:
    with Client(service_url) as client:
        yield client


@pytest.fixture(scope="module")
def faulty() -> Iterator[Faulty]:
    with faulty_server() as server:
        yield server
