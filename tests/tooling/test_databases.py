"""The fixtures that give each test a database of its own, on SQLite and on PostgreSQL."""

import pytest
from sqlalchemy import create_engine, inspect, make_url, text
from sqlalchemy.exc import OperationalError

from tests.databases import Databases


def tables(url: str) -> set[str]:
    engine = create_engine(url)
    try:
        return set(inspect(engine).get_table_names())
    finally:
        engine.dispose()


def create_table(url: str, name: str) -> None:
    engine = create_engine(url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE {name} (id INTEGER)"))
    engine.dispose()


def test_an_empty_database_has_no_tables(empty_database_url: str) -> None:
    assert tables(empty_database_url) == set()


def test_a_migrated_database_has_the_catalog_tables(database_url: str) -> None:
    assert {"alembic_version", "catalog_entry", "catalog_revision"} <= tables(database_url)


def test_what_one_test_does_reaches_no_other(databases: Databases) -> None:
    with databases.migrated() as first, databases.migrated() as second:
        create_table(first, "only_here")

        assert "only_here" in tables(first)
        assert "only_here" not in tables(second)


def test_a_database_is_dropped_though_somebody_is_still_connected(postgresql: Databases) -> None:
    with postgresql.empty() as url:
        engine = create_engine(url)
        connection = engine.connect()

    with pytest.raises(OperationalError):
        connection.execute(text("SELECT 1"))
    connection.close()
    engine.dispose()


def test_a_loaded_database_has_a_first_catalog_revision(loaded_database_url: str) -> None:
    engine = create_engine(loaded_database_url)
    with engine.connect() as connection:
        newest = connection.scalar(text("SELECT max(id) FROM catalog_revision"))
    engine.dispose()

    assert newest == 1


def test_both_kinds_of_database_are_real(sqlite: Databases, postgresql: Databases) -> None:
    with sqlite.empty() as on_file, postgresql.empty() as on_server:
        assert make_url(on_file).get_backend_name() == "sqlite"
        assert make_url(on_server).get_backend_name() == "postgresql"
