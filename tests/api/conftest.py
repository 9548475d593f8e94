"""Applications that fail on purpose."""

from collections.abc import Callable
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from service.app import create_app
from service.settings import Settings
from tests.api.fakes import EmptyKeeper, FailingKeeper

ClientMaker = Callable[..., FlaskClient]


@pytest.fixture
def client_with(tmp_path: Path) -> ClientMaker:
    """`client_with(keeper)`: a client of an application on a database file that nobody made."""

    def make(keeper: EmptyKeeper | None = None, **settings: object) -> FlaskClient:
        url = f"sqlite:///{tmp_path}/missing.db"
        return create_app(Settings(database_url=url, **settings), keeper).test_client()  # type: ignore[arg-type]

    return make


@pytest.fixture
def client_that_fails_with(client_with: ClientMaker) -> Callable[[Exception], FlaskClient]:
    return lambda error: client_with(FailingKeeper(error))
