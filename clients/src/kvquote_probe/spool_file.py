"""The file that a spool is: opened, checked, moved aside where it is damaged, and its errors put into words."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import NamedTuple

FILE = "results.sqlite"
_REPAIR_LOCK = "repair.lock"
WAIT_SECONDS = 30
"""How long another process of the same spool is waited for; a commit takes milliseconds."""

_APPLICATION = 0x6B767131  # "kvq1"
_VERSION = 1
_TABLES = """
CREATE TABLE waiting (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE answers (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, verdict TEXT NOT NULL, detail TEXT, answered_at TEXT NOT NULL
);
CREATE TABLE aside (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, text TEXT NOT NULL, verdict TEXT NOT NULL, detail TEXT,
    answered_at TEXT NOT NULL
);
CREATE TABLE totals (verdict TEXT PRIMARY KEY, rows INTEGER NOT NULL);
"""
_DAMAGED = ("malformed", "not a database", "disk image", "corrupt", "no such table", "encrypted")


class SpoolError(Exception):
    """Why results cannot be kept or found here, in a sentence for a person."""


class SpoolFullError(SpoolError):
    """The disk is full; what was in the spool before is as it was."""


class SpoolBusyError(SpoolError):
    """Another process has what only one may have."""


class SpoolDamagedError(SpoolError):
    """The file cannot be read; opening the spool again moves it aside and saves what can be."""


class Recovery(NamedTuple):
    """What was done about a damaged file: where it lies now, and how many rows could be read from it."""

    damaged: Path
    rows: int


def opened(folder: Path) -> tuple[sqlite3.Connection, Recovery | None]:
    """The spool's file in `folder`, made if there is none; a damaged one is moved aside first."""
    path = folder / FILE
    with suppress(SpoolDamagedError):
        return _connected(path), None
    with (folder / _REPAIR_LOCK).open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Another process may have repaired it meanwhile.
        with suppress(SpoolDamagedError):
            return _connected(path), None
        damaged = _moved_aside(path)
        connection = _connected(path)
        return connection, Recovery(damaged, _saved(damaged, connection))


@contextmanager
def explained(folder: Path) -> Iterator[None]:
    """Put what SQLite and the system say into words."""
    try:
        yield
    except sqlite3.Error as error:
        raise _sqlite_error(folder, error) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise SpoolError(
            f"Results cannot be kept in {folder}: {reason}. Choose another folder with --spool."
        ) from error


def flush_folder(folder: Path) -> None:
    """Make what was created or renamed in a folder survive a loss of power."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sqlite_error(folder: Path, error: sqlite3.Error) -> SpoolError:
    said = str(error)
    if "full" in said:
        return SpoolFullError(f"The disk that holds {folder} is full: make room, or choose another with --spool.")
    if "locked" in said or "busy" in said:
        return SpoolBusyError(f"Another process has held {folder} for {WAIT_SECONDS} s.")
    if any(word in said for word in _DAMAGED):
        return SpoolDamagedError(
            f"{folder / FILE} is damaged ({said}); the next run moves it aside and saves its rows."
        )
    return SpoolError(f"Results cannot be kept in {folder}: {said}. Choose another folder with --spool.")


def _connected(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=WAIT_SECONDS, isolation_level=None)
    try:
        with explained(path.parent):
            _prepare(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("PRAGMA synchronous = FULL")
    # Kept, not deleted, after each commit: spares flushing the folder.
    connection.execute("PRAGMA journal_mode = TRUNCATE").fetchall()
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("BEGIN IMMEDIATE")
    try:
        _make_or_check(connection, path)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _make_or_check(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    if not tables and not application:
        for statement in _TABLES.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_VERSION}")
    elif application != _APPLICATION:
        raise SpoolError(f"{path} is the database of another program: choose another folder with --spool.")
    elif version != _VERSION:
        raise SpoolError(f"{path} was written by a newer kvquote-probe (form {version}): use that one.")
    else:
        _check(connection)


def _check(connection: sqlite3.Connection) -> None:
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(f"malformed: {found}")
    for table in ("waiting", "answers", "aside", "totals"):
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 - names of ours


def _moved_aside(path: Path) -> Path:
    """The damaged file under a name of its own, with the journal that belongs to it."""
    stamp = f"{datetime.now(timezone.utc):%Y%m%dT%H%M%S.%f}"
    damaged = path.with_name(f"{FILE}.damaged-{stamp}")
    with explained(path.parent):
        path.rename(damaged)
        with suppress(FileNotFoundError):
            path.with_name(f"{FILE}-journal").rename(damaged.with_name(f"{damaged.name}-journal"))
        flush_folder(path.parent)
    return damaged


def _saved(damaged: Path, connection: sqlite3.Connection) -> int:
    """Copy the rows that can be read, from both ends of the damage; how many."""
    seen: set[str] = set()
    with explained(damaged.parent):
        connection.execute("BEGIN IMMEDIATE")
        for table in ("waiting", "aside"):
            for order in ("ASC", "DESC"):
                for row in _readable(damaged, f"SELECT id, text FROM {table} ORDER BY seq {order}"):  # noqa: S608
                    if row[0] not in seen:
                        seen.add(row[0])
                        connection.execute("INSERT INTO waiting (id, text) VALUES (?, ?)", row)
        connection.execute("COMMIT")
    return len(seen)


def _readable(damaged: Path, query: str) -> Iterator[tuple[str, str]]:
    try:
        with closing(sqlite3.connect(f"{damaged.absolute().as_uri()}?mode=ro", uri=True)) as source:
            # Lets SQLite read a file that is shorter than it says.
            source.execute("PRAGMA writable_schema = ON")
            for row_id, text in source.execute(query):
                if _is_row(row_id, text):
                    yield row_id, text
    except (sqlite3.Error, UnicodeDecodeError):
        return


def _is_row(row_id: object, text: object) -> bool:
    """Whether a page's content is what was written: torn text is no JSON."""
    try:
        row = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return False
    return isinstance(row, dict) and row.get("id") == row_id
