"""Runs migrations in one transaction, under a lock: killed half-way or started twice they leave nothing half done.

Alembic knows neither: on SQLite it commits each statement by itself, and two runs at once fail on the second's tables.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from alembic import context
from sqlalchemy import Connection, Engine, text

from service.settings import Settings
from service.storage.database import UtcDateTime, begin_write, make_engine
from service.storage.measurement_tables import MEASUREMENT

# Any number that no other lock of the database uses; spells "schema" in ASCII.
_SCHEMA_LOCK: Final = 0x736368656D61

# The other run may be rewriting a large table.
_WAIT_FOR_OTHER_RUN_SECONDS: Final = 600

# A statement that waits longer for a table holds up every request behind it: better fail and be run again.
_WAIT_FOR_TABLE_SECONDS: Final = 10


def _url() -> Any:  # noqa: ANN401  # alembic's attributes are untyped
    return context.config.attributes.get("url") or Settings.from_environment().database_url


def _render_item(kind: str, item: Any, _autogenerate: object) -> str | Literal[False]:  # noqa: ANN401
    """Keep the code's own types out of revisions: a revision must run long after they are renamed."""
    return "sa.DateTime(timezone=True)" if kind == "type" and isinstance(item, UtcDateTime) else False


def _configure(**where: Any) -> None:  # noqa: ANN401
    context.configure(
        # Which all tables share: those of the other module are loaded with it.
        target_metadata=MEASUREMENT.metadata,
        transactional_ddl=True,
        render_as_batch=True,
        render_item=_render_item,
        compare_server_default=True,
        **where,
    )


def _lock_postgresql(connection: Connection) -> None:
    """Wait for other runs; a session's lock, since one of a transaction would make alembic leave the commit to us."""
    connection.execute(text("SET statement_timeout = 0"))
    connection.execute(text(f"SET lock_timeout = '{_WAIT_FOR_OTHER_RUN_SECONDS}s'"))
    connection.execute(text("SELECT pg_advisory_lock(:lock)"), {"lock": _SCHEMA_LOCK})
    connection.execute(text(f"SET lock_timeout = '{_WAIT_FOR_TABLE_SECONDS}s'"))
    connection.commit()


def _ready_sqlite(connection: Connection) -> None:
    """Let BEGIN IMMEDIATE be the lock; past SQLAlchemy, which would begin before these can have an effect."""
    driver = connection.connection.dbapi_connection
    if driver is not None:
        driver.execute(f"PRAGMA busy_timeout = {_WAIT_FOR_OTHER_RUN_SECONDS * 1000}")
        # A batch rebuilds a table by dropping it, which would follow its foreign keys.
        driver.execute("PRAGMA foreign_keys = OFF")


def _check_sqlite(connection: Connection) -> None:
    broken = connection.execute(text("PRAGMA foreign_key_check")).all()
    if broken:
        raise RuntimeError(f"The migration would leave {len(broken)} rows without what they refer to. Nothing changed.")


def _run(connection: Connection) -> None:
    _configure(connection=connection)
    with context.begin_transaction():
        context.run_migrations()
        if connection.dialect.name == "sqlite":
            _check_sqlite(connection)


def run_online(engine: Engine) -> None:
    """Migrate under the lock of that database."""
    try:
        with engine.connect() as connection:
            if connection.dialect.name == "postgresql":
                _lock_postgresql(connection)
            else:
                _ready_sqlite(connection)
            _run(begin_write(connection))
    finally:
        # Closes the connection, and with it goes the lock.
        engine.dispose()


def run_offline() -> None:
    """Print the SQL instead of running it (`--sql`)."""
    _configure(url=make_engine(_url()).url, literal_binds=True, dialect_opts={"paramstyle": "named"})
    with context.begin_transaction():
        context.run_migrations()


if context.is_offline_mode():
    run_offline()
else:
    run_online(make_engine(_url()))
