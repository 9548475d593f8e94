"""Fixtures that all tests share: fresh databases, the application on one of them, frozen answers."""

import gc
import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tests.databases import Databases, PostgresqlServer, SqliteServer, postgresql_url
from tests.golden_files import Golden

if TYPE_CHECKING:
    from flask import Flask
    from flask.testing import FlaskClient
    from sqlalchemy import Engine

# No deadlines, for an example or for drawing them: two busy cores make a quick one slow now and then. In CI the same
# examples every time.
hypothesis_settings.register_profile(
    "kvquote", deadline=None, derandomize="CI" in os.environ, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("kvquote")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite tests/golden; runs only the tests that use it"
    )


def pytest_configure() -> None:
    # A shell's background job begins with interruptions ignored, and so would all that tests start and interrupt.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # What was collected stays to the end: nobody need look through it again and again for garbage.
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--update-golden"):
        items[:] = [item for item in items if "golden" in getattr(item, "fixturenames", ())]


@pytest.fixture(scope="session")
def golden(request: pytest.FixtureRequest) -> Golden:
    """`golden("fit/llama-2-7b", answer)` compares with tests/golden/fit/llama-2-7b.json."""
    return Golden(update=request.config.getoption("--update-golden"))


@pytest.fixture(scope="session")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Databases:
    return Databases(SqliteServer(tmp_path_factory.mktemp("sqlite")))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[Databases]:
    with postgresql_url() as url, closing(PostgresqlServer(url)) as server:
        yield Databases(server)


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> Databases:
    """Whoever asks for this, or for one of the URLs below, runs once on each database."""
    made: Databases = request.getfixturevalue(request.param)
    return made


@pytest.fixture
def empty_database_url(databases: Databases) -> Iterator[str]:
    with databases.empty() as url:
        yield url


@pytest.fixture
def database_url(databases: Databases) -> Iterator[str]:
    """A migrated database without rows, this test's own."""
    with databases.migrated() as url:
        yield url


@pytest.fixture
def loaded_database_url(databases: Databases) -> Iterator[str]:
    """A migrated database with the catalog of catalog/ loaded, this test's own."""
    with databases.loaded() as url:
        yield url


@pytest.fixture
def engine(database_url: str) -> Iterator["Engine"]:
    from service.storage.database import make_engine

    engine = make_engine(database_url, timeout_seconds=5)
    yield engine
    engine.dispose()


class AppMaker(Protocol):
    """Makes an application on a database, with settings as the environment would name them."""

    def __call__(self, database_url: str, **environment: str) -> "Flask": ...


@contextmanager
def wired_app(database_url: str, **environment: str) -> Iterator["Flask"]:
    """An application as production wires it, its thread and connections ended afterwards."""
    from service.api.services import services_of
    from service.app import create_app
    from service.settings import Settings
    from service.storage.snapshot import SnapshotKeeper

    app = create_app(Settings.from_environment({"DATABASE_URL": database_url, **environment}))
    yield app
    having = services_of(app)
    if isinstance(having.keeper, SnapshotKeeper):
        having.keeper.stop()
    having.engine.dispose()


@pytest.fixture
def make_app() -> Iterator[AppMaker]:
    """`make_app(loaded_database_url, KVQUOTE_MAX_BODY_BYTES="2048")`: as many applications as a test wants."""
    with ExitStack() as made:

        def make(database_url: str, **environment: str) -> "Flask":
            return made.enter_context(wired_app(database_url, **environment))

        yield make


@pytest.fixture(scope="session")
def app(sqlite: Databases) -> Iterator["Flask"]:
    """One application for all tests that only read: SQLite, the catalog of catalog/ loaded."""
    with sqlite.loaded() as url, wired_app(url) as app:
        yield app


@pytest.fixture
def client(app: "Flask") -> "FlaskClient":
    return app.test_client()
