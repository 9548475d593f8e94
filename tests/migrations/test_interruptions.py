"""Killed half-way, started twice, or stopped by an error: a migration is done whole or not at all."""

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Engine, inspect, text

from service.storage.database import make_engine
from service.storage.migrations import current_revision, head_revision, upgrade
from tests.migrations.folders import copy_of_migrations

# Creates one table, waits as long as a file named `hold` is there, and creates another.
HALVES = """
import time
from pathlib import Path

import sqlalchemy as sa
from alembic import op

revision: str = "half"
down_revision: str | None = "{head}"
HERE = Path(__file__).parent


def upgrade():
    op.create_table("first_half", sa.Column("id", sa.Integer(), primary_key=True))
    (HERE / "reached").touch()
    while (HERE / "hold").exists():
        time.sleep(0.02)
    op.create_table("second_half", sa.Column("id", sa.Integer(), primary_key=True))
"""

ORPHANING = """
from alembic import op

revision: str = "orphaning"
down_revision: str | None = "{head}"


def upgrade():
    op.execute("INSERT INTO catalog_entry VALUES ('gpu', 'x', '{{}}', '', 7, 'files')")
"""

UPGRADE = "import sys; from pathlib import Path; from service.storage.migrations import upgrade; "
UPGRADE += "upgrade(sys.argv[1], 'head', Path(sys.argv[2]))"


@pytest.fixture
def engine(empty_database_url: str) -> Iterator[Engine]:
    engine = make_engine(empty_database_url)
    yield engine
    engine.dispose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = copy_of_migrations(tmp_path)
    (folder / "versions" / "half.py").write_text(HALVES.format(head=head_revision()))
    return folder


def start(url: str, folder: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", UPGRADE, url, str(folder)], stderr=subprocess.PIPE)


def wait_until_half_done(folder: Path) -> None:
    deadline = time.monotonic() + 60
    while not (folder / "versions" / "reached").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names())


def outcome(process: subprocess.Popen[bytes]) -> tuple[int, bytes]:
    _, errors = process.communicate(timeout=60)
    return process.returncode, errors


def test_killed_half_way_it_leaves_nothing(empty_database_url: str, engine: Engine, folder: Path) -> None:
    (folder / "versions" / "hold").touch()
    process = start(empty_database_url, folder)
    wait_until_half_done(folder)

    process.kill()
    process.communicate()

    assert tables(engine) == set()


def test_after_a_kill_it_can_simply_be_run_again(empty_database_url: str, engine: Engine, folder: Path) -> None:
    (folder / "versions" / "hold").touch()
    process = start(empty_database_url, folder)
    wait_until_half_done(folder)
    process.kill()
    process.communicate()
    (folder / "versions" / "hold").unlink()

    assert outcome(start(empty_database_url, folder)) == (0, b"")

    assert {"first_half", "second_half", "catalog_entry"} <= tables(engine)
    with engine.connect() as connection:
        assert current_revision(connection) == "half"


def test_started_twice_at_once_both_succeed(empty_database_url: str, engine: Engine, folder: Path) -> None:
    (folder / "versions" / "hold").touch()
    processes = [start(empty_database_url, folder) for _ in range(2)]
    wait_until_half_done(folder)
    (folder / "versions" / "hold").unlink()

    assert [outcome(process) for process in processes] == [(0, b"")] * 2

    assert {"first_half", "second_half", "catalog_entry"} <= tables(engine)


def test_a_failing_revision_takes_back_those_before_it(empty_database_url: str, engine: Engine, folder: Path) -> None:
    half = folder / "versions" / "half.py"
    half.write_text(half.read_text() + "    raise LookupError\n")

    with pytest.raises(LookupError):
        upgrade(empty_database_url, folder=folder)

    assert tables(engine) == set()


def test_rows_that_would_refer_to_nothing_stop_it(empty_database_url: str, engine: Engine, tmp_path: Path) -> None:
    folder = copy_of_migrations(tmp_path)
    (folder / "versions" / "orphaning.py").write_text(ORPHANING.format(head=head_revision()))

    with pytest.raises(Exception, match=r"without what they refer to|foreign key"):
        upgrade(empty_database_url, folder=folder)

    assert tables(engine) == set()


def test_migrated_connections_keep_their_foreign_keys(empty_database_url: str, engine: Engine) -> None:
    upgrade(empty_database_url)

    with engine.begin() as connection, pytest.raises(Exception, match=r"(?i)foreign key"):
        connection.execute(text("INSERT INTO catalog_entry VALUES ('gpu', 'x', '{}', '', 7, 'files')"))
