"""What commands share: errors in plain words, the settings of the environment, and its database."""

from __future__ import annotations

import functools
import getpass
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

import click

if TYPE_CHECKING:
    from sqlalchemy import URL, Engine
    from sqlalchemy.exc import SQLAlchemyError

    from service.settings import Settings

FAILED: Final = 2

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class CommandError(click.ClickException):
    """What went wrong, in a line; ends the command with 2, as click's own complaints do."""

    exit_code = FAILED


class NoDatabaseError(CommandError):
    """There is no file where the database should be."""


def in_plain_words(command: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Turn what an operator can put right into a line without a traceback."""

    @functools.wraps(command)
    def wrapped(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            return command(*args, **kwargs)
        except Exception as error:
            words = _plain_words(error)
            if words is None:
                raise
            raise CommandError(words) from error

    return wrapped


def _plain_words(error: Exception) -> str | None:
    """What to tell an operator of an error, None where it is a fault of ours."""
    from alembic.util import CommandError as AlembicError
    from sqlalchemy.exc import SQLAlchemyError

    from service.domain.errors import QuoteError
    from service.settings import SettingsError
    from service.storage.catalog_files import CatalogFilesError
    from service.storage.database import DatabaseUrlError

    if isinstance(error, SettingsError | DatabaseUrlError | CatalogFilesError | AlembicError):
        return str(error)
    if isinstance(error, QuoteError):
        return "\n".join(f"{fault.pointer}: {fault.detail}".removeprefix(": ") for fault in error.faults)
    return _database_trouble(error) if isinstance(error, SQLAlchemyError) else None


def _database_trouble(error: SQLAlchemyError) -> str:
    cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
    unmigrated = "no such table" in cause or ("relation" in cause and "does not exist" in cause)
    hint = " Has it been migrated? Run: kvquote-server db upgrade" if unmigrated else ""
    return f"The database cannot be used: {cause}.{hint}"


def user() -> str:
    """Who runs the command, for audits."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's numeric user has no name.
        return f"uid {os.getuid()}"


def settings() -> Settings:
    """The settings of the environment."""
    from service.settings import Settings

    return Settings.from_environment()


@contextmanager
def engine(least_wait_seconds: float = 0.0, *, makes: bool = False) -> Iterator[Engine]:
    """The engine that the environment names, closed afterwards; raises NoDatabaseError where `makes` would make it.

    It waits for SQLite's lock for `least_wait_seconds` or longer: whoever waits there does not stand in line, and
    while fleets upload the unlucky wait for long.
    """
    from service.storage.database import database_url, make_engine

    chosen = settings()
    url = database_url(chosen.database_url)
    if not makes:
        _refuse_missing(url)
    waits = least_wait_seconds if url.get_backend_name() == "sqlite" else 0.0
    made = make_engine(chosen.database_url, max(chosen.database_timeout_seconds, waits))
    try:
        yield made
    finally:
        made.dispose()


def _refuse_missing(url: URL) -> None:
    """SQLite makes a file of whatever is opened: a command in another folder would leave an empty one there."""
    if url.get_backend_name() != "sqlite" or "uri" in url.query:
        return
    file = Path(url.database or "")
    if file.parent.is_dir() and not file.exists():
        detail = f"The database cannot be used: there is no file {file}; DATABASE_URL names another."
        raise NoDatabaseError(f"{detail} Has it been migrated? Run: kvquote-server db upgrade")
