import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import cast

import pytest
from sqlalchemy import Column, Connection, Engine, Integer, MetaData, Table, insert, make_url, select, text
from sqlalchemy.exc import OperationalError, StatementError

from service.storage.database import (
    DatabaseUrlError,
    UtcDateTime,
    dispose_after_fork,
    look,
    make_engine,
    reading,
    writing,
)

_MOMENTS = Table("moments", MetaData(), Column("id", Integer, primary_key=True), Column("at", UtcDateTime))


@pytest.fixture
def moments(engine: Engine) -> Engine:
    _MOMENTS.create(engine)
    return engine


@pytest.fixture
def sqlite_engine(tmp_path: Path) -> Iterator[Engine]:
    engine = make_engine(f"sqlite:///{tmp_path / 'test.db'}", timeout_seconds=0.3)
    yield engine
    engine.dispose()


def driver_connection(connection: Connection) -> sqlite3.Connection:
    return cast("sqlite3.Connection", connection.connection.dbapi_connection)


def stored(engine: Engine, moment: datetime) -> datetime | None:
    with engine.begin() as connection:
        connection.execute(insert(_MOMENTS).values(at=moment))
        return connection.scalar(select(_MOMENTS.c.at))


def test_a_time_comes_back_as_the_same_moment_in_utc(moments: Engine) -> None:
    east = datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=5)))

    read = stored(moments, east)

    assert read == datetime(2025, 12, 31, 19, tzinfo=UTC)
    assert read is not None
    assert read.tzinfo is UTC


def test_a_time_without_a_zone_is_refused(moments: Engine) -> None:
    with pytest.raises(StatementError, match="without a zone"):
        stored(moments, datetime(2026, 1, 1))  # noqa: DTZ001  # what is to be refused


def test_a_time_that_utc_has_no_year_for_is_refused(moments: Engine) -> None:
    with pytest.raises(StatementError, match="years 1 to 9999"):
        stored(moments, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))))


def test_no_time_stays_none(moments: Engine) -> None:
    with moments.begin() as connection:
        connection.execute(insert(_MOMENTS).values(at=None))

        assert connection.execute(select(_MOMENTS.c.at)).all() == [(None,)]


@pytest.mark.parametrize(
    "pragma, value", [("journal_mode", "wal"), ("synchronous", 2), ("foreign_keys", 1), ("busy_timeout", 300)]
)
def test_every_sqlite_connection_is_durable_and_strict(sqlite_engine: Engine, pragma: str, value: object) -> None:
    with sqlite_engine.connect() as connection:
        assert connection.scalar(text(f"PRAGMA {pragma}")) == value


def test_sqlite_takes_back_ddl_with_its_transaction(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        connection.execute(text("CREATE TABLE half_done (id INTEGER)"))
        connection.rollback()

        assert connection.execute(text("SELECT name FROM sqlite_master")).all() == []


def test_a_second_sqlite_writer_waits_from_its_start(sqlite_engine: Engine) -> None:
    engine = sqlite_engine

    with writing(engine), pytest.raises(OperationalError, match="locked"), writing(engine):
        pytest.fail("two writers at once")


def test_a_sqlite_reader_does_not_wait_for_a_writer(sqlite_engine: Engine) -> None:
    engine = sqlite_engine

    with writing(engine) as writer, reading(engine) as reader:
        writer.execute(text("CREATE TABLE t (id INTEGER)"))

        assert reader.scalar(text("SELECT count(*) FROM sqlite_master")) == 0


@pytest.mark.usefixtures("moments")
def test_readers_that_turn_writers_all_succeed(engine: Engine) -> None:
    def count_up() -> None:
        for _ in range(10):
            with writing(engine) as connection:
                connection.execute(select(_MOMENTS.c.id)).all()
                connection.execute(insert(_MOMENTS).values(at=None))

    threads = [threading.Thread(target=count_up) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    with reading(engine) as connection:
        assert len(connection.execute(select(_MOMENTS.c.id)).all()) == 40


@pytest.mark.usefixtures("moments")
def test_a_reading_session_sees_one_moment(engine: Engine) -> None:
    with reading(engine) as reader:
        before = len(reader.execute(select(_MOMENTS.c.id)).all())
        with writing(engine) as writer:
            writer.execute(insert(_MOMENTS).values(at=None))

        assert len(reader.execute(select(_MOMENTS.c.id)).all()) == before


@pytest.mark.usefixtures("moments")
def test_a_writing_session_leaves_nothing_behind_when_it_fails(engine: Engine) -> None:
    def fail_after_writing() -> None:
        with writing(engine) as connection:
            connection.execute(insert(_MOMENTS).values(at=None))
            raise LookupError

    with pytest.raises(LookupError):
        fail_after_writing()

    with reading(engine) as connection:
        assert connection.execute(select(_MOMENTS.c.id)).all() == []


def test_processes_may_open_a_new_sqlite_file_at_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'new.db'}"
    code = (
        "from service.storage.database import make_engine\n"
        f"with make_engine({url!r}).connect() as connection: connection.exec_driver_sql('SELECT 1')"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(4)]

    assert [process.wait(60) for process in processes] == [0, 0, 0, 0]


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_postgresql_ends_a_statement_that_takes_too_long(database_url: str) -> None:
    engine = make_engine(database_url, timeout_seconds=0.2)

    with engine.connect() as connection, pytest.raises(OperationalError, match="statement timeout"):
        connection.execute(text("SELECT pg_sleep(5)"))

    engine.dispose()


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_the_pool_heals_when_postgresql_dropped_its_connections(engine: Engine) -> None:
    with engine.connect() as connection:
        lost = connection.scalar(text("SELECT pg_backend_pid()"))
    other = make_engine(engine.url)
    with other.connect() as killer:
        killer.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": lost})
    other.dispose()

    with engine.connect() as connection:
        assert connection.scalar(text("SELECT pg_backend_pid()")) != lost


@pytest.mark.parametrize("url", ["", "kvquote.db", "mysql://localhost/kvquote", "sqlite://", "sqlite:///:memory:"])
def test_an_address_that_cannot_work_is_refused_in_a_sentence(url: str) -> None:
    with pytest.raises(DatabaseUrlError, match=r"sqlite:///"):
        make_engine(url)


@pytest.mark.parametrize("url", ["postgresql://h/d", "postgres://h/d", "postgresql+psycopg2://h/d"])
def test_postgresql_is_spoken_to_with_psycopg_3(url: str) -> None:
    assert make_engine(url).driver == "psycopg"


@pytest.mark.parametrize("databases", ["postgresql"], indirect=True)
def test_what_the_address_says_goes_before_our_own_options(database_url: str) -> None:
    engine = make_engine(make_url(database_url).update_query_dict({"options": "-c statement_timeout=77s"}))

    with engine.connect() as connection:
        assert connection.scalar(text("SHOW statement_timeout")) == "77s"

    engine.dispose()


def test_a_child_forgets_its_parents_connections_without_closing_them(sqlite_engine: Engine) -> None:
    with sqlite_engine.connect() as connection:
        raw = driver_connection(connection)

    dispose_after_fork(sqlite_engine)

    assert raw.execute("SELECT 1").fetchone() == (1,)
    raw.close()
    with sqlite_engine.connect() as connection:
        assert driver_connection(connection) is not raw


def test_a_look_is_at_one_row_and_gives_its_connection_back(engine: Engine) -> None:
    before = engine.pool.status()

    assert look(engine, "SELECT 1, NULL") == (1, None)
    with pytest.raises(ValueError, match="unpack"):
        look(engine, "SELECT 1 WHERE 1 = 0")

    assert engine.pool.status().count("Checked out connections: 0") == 1, before
