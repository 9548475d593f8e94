"""The schema's revisions: bring a database to the newest, and tell which one it has.

Alembic is imported where it runs: a worker that only asks whether the schema is current does not pay for it.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sqlalchemy import URL, Connection, inspect, text

if TYPE_CHECKING:
    from alembic.config import Config

_ASSIGNED: Final = r'^{name}(?:: [^=]+)? = "([^"]+)"'


def data_folder(name: str) -> Path:
    """Where `catalog` or `migrations` lie: beside the code in an installed wheel, at the top of a checkout."""
    package = Path(str(files("service")))
    installed = package / "_data" / name
    return installed if installed.is_dir() else package.parent / name


def alembic_config(url: str | URL, folder: Path | None = None) -> Config:
    """Alembic's configuration for a database, without any file; `folder` replaces the shipped migrations."""
    from alembic.config import Config  # noqa: PLC0415  # see the module's first lines

    config = Config()
    # Alembic interpolates options as ConfigParser does.
    config.set_main_option("script_location", str(folder or data_folder("migrations")).replace("%", "%%"))
    config.attributes["url"] = url
    return config


def upgrade(url: str | URL, revision: str = "head", folder: Path | None = None) -> None:
    """Bring a database to a revision, whole or not at all; of several at once one works and the others wait."""
    from alembic import command  # noqa: PLC0415

    command.upgrade(alembic_config(url, folder), revision)


def downgrade(url: str | URL, revision: str, folder: Path | None = None) -> None:
    """Take a database back to a revision, `base` for an empty one."""
    from alembic import command  # noqa: PLC0415

    command.downgrade(alembic_config(url, folder), revision)


def current_revision(connection: Connection) -> str | None:
    """The revision that a database has, None for one that was never migrated."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return revision


@cache
def known_revisions(folder: Path | None = None) -> frozenset[str]:
    """The revisions that this code knows, read from the files without importing alembic."""
    return frozenset(_assigned("revision", _texts(folder)))


@cache
def head_revision(folder: Path | None = None) -> str:
    """The newest of them."""
    (head,) = known_revisions(folder) - _assigned("down_revision", _texts(folder))
    return head


def serves(connection: Connection) -> bool:
    """Whether this code can work with a database: it has the newest revision, or one of later code.

    Migrations only add, so the copies of a release go on beside those of the next one until they are replaced.
    """
    found = current_revision(connection)
    return found == head_revision() or (found is not None and found not in known_revisions())


def _texts(folder: Path | None) -> list[str]:
    paths = (folder or data_folder("migrations")).glob("versions/*.py")
    return [path.read_text(encoding="utf-8") for path in paths]


def _assigned(name: str, texts: list[str]) -> set[str]:
    pattern = re.compile(_ASSIGNED.format(name=name), re.MULTILINE)
    return {match[1] for text_ in texts if (match := pattern.search(text_))}
