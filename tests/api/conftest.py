"""Applications that fail on purpose, and desks to write the catalog at."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from service.app import create_app
from service.settings import Settings
from tests.api.desk import Desk, fill, opened_desk
from tests.api.fakes import EmptyKeeper, FailingKeeper
from tests.api.probing import Lab, new_lab
from tests.api.school import School, new_school
from tests.databases import Databases

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


@pytest.fixture
def desk(database_url: str) -> Iterator[Desk]:
    """A desk of this test's own, once on each database."""
    fill(database_url)
    with opened_desk(database_url) as desk:
        yield desk


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_desk(request: pytest.FixtureRequest) -> Iterator[Desk]:
    """A desk of a whole module, once on each database, for tests whose writes are all refused."""
    databases: Databases = request.getfixturevalue(request.param)
    with databases.migrated() as url:
        fill(url)
        with opened_desk(url) as desk:
            yield desk


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_lab(request: pytest.FixtureRequest) -> Iterator[Lab]:
    databases = request.getfixturevalue(request.param)
    with databases.migrated() as url, new_lab(url) as lab:
        yield lab


@pytest.fixture
def lab(shared_lab: Lab) -> Lab:
    """A lab without rows."""
    shared_lab.clear()
    return shared_lab


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def shared_school(request: pytest.FixtureRequest) -> Iterator[School]:
    databases: Databases = request.getfixturevalue(request.param)
    with databases.migrated() as url, new_school(url) as school:
        yield school


@pytest.fixture
def school(shared_school: School) -> School:
    """A school without rows."""
    shared_school.clear()
    return shared_school


@pytest.fixture
def own_school(database_url: str) -> Iterator[School]:
    """A school whose catalog a test may change."""
    with new_school(database_url) as school:
        yield school
