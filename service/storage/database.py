"""The engine, its transactions and the column type for times, alike on SQLite and PostgreSQL."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from sqlalchemy import URL, Connection, DateTime, Dialect, Engine, LargeBinary, Text, create_engine, event, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.types import TypeDecorator

from service.storage.canonical import compact_json

STORED_TEXT: Final = Text().with_variant(LargeBinary(), "sqlite")
"""A text to cast to: its bytes on SQLite, which keeps whatever was written and fails to tell what is no UTF-8."""

_WRITES: Final = "kvquote_writes"
_DRIVERS: Final = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


class DatabaseUrlError(ValueError):
    """A database address that this service cannot use."""


class UtcDateTime(TypeDecorator[datetime]):
    """A point in time, kept in UTC and read back with its zone.

    SQLite stores no zone, so a local time would come back as another moment; a naive one is refused for that reason.
    """

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002  # the base names it
        """Turn a zoned time into UTC; raises ValueError where it has no zone, or is in no year from 1 to 9999 there."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("A time without a zone cannot be stored.")
        try:
            return value.astimezone(UTC)
        except OverflowError as error:
            raise ValueError("A time outside the years 1 to 9999 cannot be stored.") from error

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Attach UTC where the database dropped it, convert where its own zone is another."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


STORED_TIME: Final = UtcDateTime().with_variant(LargeBinary(), "sqlite")
"""A time to cast to, for `stored_time`."""


def database_url(url: str | URL) -> URL:
    """The address with its driver named; raises DatabaseUrlError for what is neither SQLite on disk nor PostgreSQL."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise DatabaseUrlError("The database address is not a URL such as sqlite:///kvquote.db.") from error
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        detail = f"The database {parsed.get_backend_name()!r} is not supported: use sqlite:/// or postgresql://."
        raise DatabaseUrlError(detail)
    if driver == "sqlite" and (parsed.database in {None, "", ":memory:"} or parsed.query.get("mode") == "memory"):
        raise DatabaseUrlError("SQLite in memory is not shared by threads: name a file, as in sqlite:///kvquote.db.")
    return parsed.set(drivername=driver)


def make_engine(url: str | URL, timeout_seconds: float = 5.0) -> Engine:
    """An engine that waits at most `timeout_seconds` for a connection, a lock or a statement.

    Nothing is connected to yet. Raises DatabaseUrlError.
    """
    parsed = database_url(url)
    if parsed.get_backend_name() == "sqlite":
        arguments: dict[str, Any] = {"timeout": timeout_seconds}
    else:
        arguments = _postgresql_arguments(parsed, timeout_seconds)
    engine = create_engine(
        parsed,
        connect_args=arguments,
        json_serializer=compact_json,
        pool_pre_ping=parsed.get_backend_name() == "postgresql",
        pool_timeout=timeout_seconds,
    )
    if engine.dialect.name == "sqlite":
        _take_over_sqlite_transactions(engine, timeout_seconds)
    return engine


@contextmanager
def writing(database: Engine) -> Iterator[Connection]:
    """A transaction that may write, committed at the end and rolled back on an error.

    On SQLite it takes the write lock at once: a reader that turns writer is told `database is locked` without any wait.
    """
    with database.connect() as connection, begin_write(connection).begin():
        yield connection


@contextmanager
def reading(database: Engine) -> Iterator[Connection]:
    """A transaction whose queries all see the database at one moment, whatever is committed meanwhile."""
    with database.connect() as connection:
        if connection.dialect.name == "postgresql":
            connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        with connection.begin():
            yield connection


def look(database: Engine, query: str) -> tuple[Any, ...]:
    """The one row of a query without parameters, asked of the driver itself.

    For what every worker asks every second: all that SQLAlchemy makes of a statement would be touched by each worker,
    and so copied into each, which takes some 5 MiB of its memory.
    """
    with closing(database.raw_connection()) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        (row,) = cursor.fetchall()
        return tuple(row)


def stored_bytes(stored: str | bytes) -> bytes:
    """What a column cast to STORED_TEXT holds."""
    return stored if isinstance(stored, bytes) else stored.encode()


def stored_text(stored: str | bytes) -> str | None:
    """The same as a text; None where it is no UTF-8, which something else wrote."""
    try:
        return stored_bytes(stored).decode()
    except UnicodeDecodeError:
        return None


def stored_time(stored: datetime | bytes) -> datetime | None:
    """What a column cast to STORED_TIME holds; None where it is no time, which something else wrote."""
    if isinstance(stored, datetime):
        return stored
    try:
        moment = datetime.fromisoformat(stored.decode())
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def begin_write(connection: Connection) -> Connection:
    """Mark a connection whose next transaction may write."""
    return connection.execution_options(**{_WRITES: True})


def hold(connection: Connection, lock: int) -> None:
    """Keep others who hold that lock waiting until the transaction ends; SQLite has one writer at a time anyway."""
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (lock,))


def dispose_after_fork(engine: Engine) -> None:
    """Forget connections that a parent process opened, without closing them under it: for gunicorn's `post_fork`."""
    engine.dispose(close=False)


def _postgresql_arguments(url: URL, timeout_seconds: float) -> dict[str, Any]:
    milliseconds = math.ceil(timeout_seconds * 1000)
    arguments: dict[str, Any] = {
        # libpq takes whole seconds and reads 1 as 2.
        "connect_timeout": max(2, math.ceil(timeout_seconds)),
        "options": f"-c statement_timeout={milliseconds} -c lock_timeout={milliseconds}",
        # A host that vanished acknowledges nothing: without it a query waits for the kernel's quarter of an hour.
        "tcp_user_timeout": milliseconds,
    }
    return {name: value for name, value in arguments.items() if name not in url.query}


def _take_over_sqlite_transactions(engine: Engine, timeout_seconds: float) -> None:
    """Begin transactions here: the driver's own begin leaves out DDL and always begins as a reader."""

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _record: object) -> None:  # noqa: ANN401  # the driver's connection has no common type
        connection.isolation_level = None
        # First of all: switching to WAL needs a lock that another process may hold for a moment.
        connection.execute(f"PRAGMA busy_timeout = {math.ceil(timeout_seconds * 1000)}")
        connection.execute("PRAGMA journal_mode = WAL")
        # An acknowledgement is a promise: FULL flushes each commit, NORMAL may lose the last ones with the power.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get(_WRITES)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
