import importlib.util
import io
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, inspect, text
from sqlalchemy.exc import DBAPIError

from service.storage.database import make_engine
from service.storage.measurement_tables import MEASUREMENT
from service.storage.migrations import (
    alembic_config,
    current_revision,
    data_folder,
    downgrade,
    head_revision,
    serves,
    upgrade,
)
from tests.migrations.folders import copy_of_migrations

REVISIONS = [script.revision for script in ScriptDirectory.from_config(alembic_config("")).walk_revisions()][::-1]


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    engine = make_engine(empty_database_url)
    yield engine
    engine.dispose()


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def comparable(index: Mapping[str, Any]) -> dict[str, Any]:
    """An index with its condition as text: as SQLAlchemy reads it, it is another object each time."""
    options = {name: str(option) for name, option in (index.get("dialect_options") or {}).items()}
    return {**index, "dialect_options": options}


def schema(engine: Engine) -> object:
    """All that the database says of its tables, constraints and indexes."""
    inspector = inspect(engine)
    return {
        name: (
            [(column["name"], str(column["type"]), column["nullable"]) for column in inspector.get_columns(name)],
            inspector.get_pk_constraint(name),
            inspector.get_foreign_keys(name),
            sorted(str(check["name"]) for check in inspector.get_check_constraints(name)),
            sorted(map(comparable, inspector.get_indexes(name)), key=lambda index: str(index["name"])),
        )
        for name in inspector.get_table_names()
        if name != "alembic_version"
    }


def differences(connection: Connection) -> list[object]:
    context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
    return list(compare_metadata(context, MEASUREMENT.metadata))


def test_the_revisions_are_one_line() -> None:
    assert ScriptDirectory.from_config(alembic_config("")).get_heads() == [head_revision()]


def test_a_migrated_database_is_what_the_tables_say(empty_database_url: str, engine: Engine) -> None:
    upgrade(empty_database_url)

    with engine.connect() as connection:
        assert differences(connection) == []


def test_constraints_are_named_as_the_tables_name_them(empty_database_url: str, engine: Engine) -> None:
    upgrade(empty_database_url)
    migrated = schema(engine)
    downgrade(empty_database_url, "base")

    MEASUREMENT.metadata.create_all(engine)

    assert schema(engine) == migrated


@pytest.mark.parametrize("revision", REVISIONS)
def test_each_revision_can_be_taken_back(empty_database_url: str, engine: Engine, revision: str) -> None:
    upgrade(empty_database_url, revision)
    migrated = schema(engine)

    downgrade(empty_database_url, "-1")
    upgrade(empty_database_url, revision)

    assert schema(engine) == migrated


def test_taking_everything_back_leaves_an_empty_database(empty_database_url: str, engine: Engine) -> None:
    upgrade(empty_database_url)

    downgrade(empty_database_url, "base")

    assert tables(engine) == {"alembic_version"}


def test_upgrading_again_changes_nothing(empty_database_url: str, engine: Engine) -> None:
    upgrade(empty_database_url)
    with engine.begin() as connection:
        connection.execute(
            text("INSERT INTO catalog_revision VALUES (1, '2026-01-01 00:00:00+00:00', 'me', 'files', 'first')")
        )

    upgrade(empty_database_url)

    with engine.connect() as connection:
        assert connection.scalar(text("SELECT author FROM catalog_revision")) == "me"


def test_a_database_serves_once_it_is_migrated(empty_database_url: str, engine: Engine) -> None:
    with engine.connect() as connection:
        assert (current_revision(connection), serves(connection)) == (None, False)

    upgrade(empty_database_url)

    with engine.connect() as connection:
        assert (current_revision(connection), serves(connection)) == (head_revision(), True)


@pytest.mark.parametrize("revision, served", [("0001", False), ("later", True)])
def test_an_older_schema_does_not_serve_and_a_later_one_does(
    empty_database_url: str, engine: Engine, revision: str, served: bool
) -> None:
    upgrade(empty_database_url)
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = :it"), {"it": revision})

    with engine.connect() as connection:
        assert serves(connection) is served


def test_autogenerated_revisions_do_not_name_the_code(empty_database_url: str, engine: Engine, tmp_path: Path) -> None:
    folder = copy_of_migrations(tmp_path)
    upgrade(empty_database_url)
    for number, later in enumerate(REVISIONS, 1):
        (path,) = (folder / "versions").glob(f"{later}*.py")
        path.write_text(EMPTY_REVISION.format(revision=later, former=REVISIONS[number - 2] if number > 1 else None))
    with engine.begin() as connection:
        for table in reversed(MEASUREMENT.metadata.sorted_tables):
            connection.execute(text(f"DROP TABLE {table.name}"))

    command.revision(alembic_config(empty_database_url, folder), "made by a tool", autogenerate=True, rev_id="made")

    (written,) = (folder / "versions").glob("made*.py")
    assert "DateTime(timezone=True)" in written.read_text()
    assert "service" not in written.read_text()
    load(written)


@pytest.mark.parametrize("statement", ["UPDATE audit_event SET actor = 'nobody'", "DELETE FROM audit_event"])
def test_the_audit_only_grows(empty_database_url: str, engine: Engine, statement: str) -> None:
    upgrade(empty_database_url)
    with engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO audit_event (happened_at, actor, action, subject) "
                "VALUES ('2026-01-01 00:00:00+00:00', 'me', 'token.created', 'token/x')"
            )
        )

    with pytest.raises(DBAPIError, match="the audit is append-only"), engine.begin() as connection:
        connection.execute(text(statement))

    with engine.connect() as connection:
        assert connection.scalar(text("SELECT actor FROM audit_event")) == "me"


def test_the_sql_can_be_printed_instead_of_run() -> None:
    with redirect_stdout(io.StringIO()) as printed:
        command.upgrade(alembic_config("postgresql://nowhere/none"), "head", sql=True)

    assert "CREATE TABLE catalog_entry" in printed.getvalue()
    assert printed.getvalue().startswith("BEGIN;")


def test_an_installed_package_brings_its_own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "service" / "_data" / "catalog").mkdir(parents=True)
    monkeypatch.setattr("service.storage.migrations.files", lambda package: tmp_path / package)

    assert data_folder("catalog") == tmp_path / "service" / "_data" / "catalog"
    assert data_folder("migrations") == tmp_path / "migrations"


EMPTY_REVISION = '''revision = "{revision}"
down_revision = "{former}" if "{former}" != "None" else None


def upgrade() -> None:
    """Nothing."""
'''


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
