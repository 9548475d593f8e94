"""Pages need neither database nor catalog."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flask.testing import FlaskClient

    from tests.conftest import AppMaker


@pytest.fixture
def client(make_app: "AppMaker") -> "FlaskClient":
    return make_app("sqlite:////nowhere/at/all.db").test_client()
