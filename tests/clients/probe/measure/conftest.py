"""One nursery for all tests that measure, since loading torch takes seconds, and the service's own application."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.nursery import Nursery
from kvquote_probe.measure.setting import Bench


class AppService:
    """The application without HTTP, as `asking.Service` sees a service."""

    def __init__(self, client: FlaskClient) -> None:
        self._client = client

    def get(self, path: str) -> Any:  # noqa: ANN401  # JSON
        return self._body(self._client.get(path))

    def post(self, path: str, document: Mapping[str, Any]) -> Any:  # noqa: ANN401  # JSON
        return self._body(self._client.post(path, json=document))

    def _body(self, answer: TestResponse) -> Any:  # noqa: ANN401  # JSON
        body: Any = answer.json
        if answer.status_code >= 400:
            raise MeasureError(f"{body['title']}: {body['errors']}")
        return body


@pytest.fixture(scope="session")
def nursery() -> Iterator[Nursery]:
    with Nursery({"OMP_NUM_THREADS": "1"}) as nursery:
        yield nursery


@pytest.fixture(scope="session")
def service(nursery: Nursery, app: Flask) -> AppService:
    del nursery  # which loads torch while the catalog is loaded here
    return AppService(app.test_client())


@pytest.fixture(scope="session")
def bench(nursery: Nursery, service: AppService) -> Bench:
    """The CPU as the device, the application as the service."""
    return Bench(nursery, {"device": "cpu"}, lambda _: None, given_service=service)


@pytest.fixture
def said() -> list[str]:
    return []
