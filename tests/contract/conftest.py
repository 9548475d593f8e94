"""The description that the service gives of itself."""

from typing import Any

import pytest

from service.app import create_app
from service.settings import Settings


@pytest.fixture(scope="session")
def spec() -> dict[str, Any]:
    """As it is served; on any database, for it asks none."""
    app = create_app(Settings(database_url="sqlite:////nowhere/at/all.db"))
    document: dict[str, Any] = app.test_client().get("/openapi.json").get_json()
    return document
