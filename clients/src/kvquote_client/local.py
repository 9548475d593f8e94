"""`--local`: the service's own code in this process, on an embedded database, without a network.

The one place of the clients that imports the service, and only where somebody asks for it and has it installed.
"""

from __future__ import annotations

import hashlib
import io
import os
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import BaseAdapter

from kvquote_client.client import Client
from kvquote_client.errors import Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from flask import Flask

_ADDRESS: Final = "http://local"
# Environments of several releases may share one cache.
_KEPT: Final = 4
_OURS: Final = "alembic_version"


def local_client(database: str | None = None) -> Client:
    """A client of the service package that is installed beside this one.

    `database` is an SQLite file, made and filled with the catalog where it is not there; without one a file in the
    user's cache, made anew when the package or its catalog changes.

    Raises:
        Unreachable: the package is not installed, or the file cannot be used.
    """
    try:
        import service.app
        import service.settings
    except ImportError as error:
        raise Unreachable(
            f"--local needs the service package beside kvquote ({error}); "
            "`pip install .` in a checkout of kvquote puts it there, on Python 3.11 or newer"
        ) from error
    try:
        kept = Path(database).absolute() if database else _cached()
        url = f"sqlite:///{kept}"
        if database:
            _refuse_another_s(kept)
            _fill(url)
        settings = service.settings.Settings(database_url=url, log_level="critical")
        app = service.app.create_app(settings)
    except Exception as error:
        # SQLAlchemy adds the statement and where to read on.
        words = (str(error).splitlines() or [type(error).__name__])[0]
        raise Unreachable(f"the local database cannot be used, --database names another: {words}") from error
    client = Client(_ADDRESS, retries=0)
    client.transport.session.mount(_ADDRESS, _InProcess(app))
    return client


def _refuse_another_s(path: Path) -> None:
    """What holds another program's tables gets none of ours beside them."""
    if not path.exists() or not path.stat().st_size:
        return
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as found:
        names = {name for (name,) in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if names and _OURS not in names:
        raise ValueError(f"{path} is the database of another program")


def _cached() -> Path:
    """The user's database of the catalog as it is installed now, made aside when it is first asked for."""
    from service.storage.migrations import data_folder

    folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvquote"
    files = sorted(path for name in ("catalog", "migrations") for path in data_folder(name).rglob("*.*"))
    stats = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files if path.is_file()]
    kept = folder / f"local-{hashlib.sha256(repr(stats).encode()).hexdigest()[:16]}.db"
    if not kept.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as aside:
            made = Path(aside) / kept.name
            _fill(f"sqlite:///{made}")
            made.replace(kept)
        _forget_all_but(_KEPT, folder)
    return kept


def _forget_all_but(newest: int, folder: Path) -> None:
    made = sorted(folder.glob("local-*.db"), key=lambda path: path.stat().st_mtime_ns)
    for old in made[:-newest]:
        for left in folder.glob(f"{old.name}*"):
            left.unlink(missing_ok=True)


def _fill(url: str) -> None:
    """Migrate, and load the catalog where there is none yet."""
    from service.storage import catalog, catalog_files, database, migrations

    migrations.upgrade(url)
    engine = database.make_engine(url)
    try:
        with database.reading(engine) as connection:
            filled = catalog.current_revision(connection) > 0
        if not filled:
            catalog_files.load(engine, migrations.data_folder("catalog"), author="kvquote --local")
    finally:
        engine.dispose()


class _InProcess(BaseAdapter):
    """Carries a request to an application in this process."""

    def __init__(self, app: Flask) -> None:
        super().__init__()
        self._app = app

    def send(self, request: requests.PreparedRequest, **_: Any) -> requests.Response:  # type: ignore[override]  # noqa: ANN401
        """Call the application; nothing can time out, and there is no proxy between."""
        from werkzeug.test import EnvironBuilder, run_wsgi_app

        parts = urlsplit(str(request.url))
        headers: Mapping[str, str] = request.headers
        builder = EnvironBuilder(
            method=str(request.method),
            base_url=_ADDRESS,
            path=unquote(parts.path),
            query_string=parts.query,
            headers=list(headers.items()),
            data=request.body or b"",
        )
        with closing(builder):
            body, status, answered = run_wsgi_app(self._app, builder.get_environ(), buffered=True)
        reply = requests.Response()
        reply.status_code = int(status.split()[0])
        reply.headers.update(dict(answered))
        reply.raw = io.BytesIO(b"".join(body))
        reply.url, reply.request = str(request.url), request
        return reply

    def close(self) -> None:
        """Let go of the database, and of the thread that looks for a new catalog."""
        from service.api.services import services_of

        having = services_of(self._app)
        with suppress(AttributeError):
            having.keeper.stop()  # type: ignore[attr-defined]  # the keeper of a database has a thread
        having.engine.dispose()
