"""What the views need besides the request: settings, database and catalog, kept with the application."""

from dataclasses import dataclass
from datetime import datetime
from threading import Lock
from typing import Protocol, cast

from flask import Flask, current_app
from sqlalchemy import Engine

from service.domain.errors import CatalogUnavailable
from service.settings import Settings
from service.storage.past import PastCatalogs
from service.storage.snapshot import Snapshot
from service.storage.token_cache import TokenCache

_EXTENSION = "kvquote"
_FIRST_READ_SECONDS = 2.0
_first_read = Lock()


class Keeper(Protocol):
    """What keeps the catalog at hand; SnapshotKeeper of the storage does."""

    def current(self) -> Snapshot:
        """The snapshot at hand; raises CatalogUnavailable where there never was one."""

    def refresh(self) -> bool:
        """Read what changed; whether that could be done."""

    def start(self) -> None:
        """Refresh on a timer in this process; a second call does nothing."""


@dataclass(frozen=True, slots=True)
class Services:
    """Made once by create_app."""

    settings: Settings
    engine: Engine
    keeper: Keeper
    past: PastCatalogs
    tokens: TokenCache

    def install(self, app: Flask) -> None:
        """Let the views of `app` find this."""
        app.extensions[_EXTENSION] = self


def services() -> Services:
    """The services of the application that answers this request."""
    return cast("Services", current_app.extensions[_EXTENSION])


def services_of(app: Flask) -> Services:
    """The services of an application, outside a request."""
    return cast("Services", app.extensions[_EXTENSION])


def catalog_at(as_of: str | None) -> Snapshot:
    """The catalog to answer from: the present one, or as it was at a time with an offset.

    Raises CatalogUnavailable, and ValidationError for a time that has no catalog.
    """
    present = snapshot()
    return present if as_of is None else services().past.at(datetime.fromisoformat(as_of))


def snapshot() -> Snapshot:
    """The catalog to answer from; raises CatalogUnavailable.

    Under gunicorn the worker's hook has read it. Under another server the first question does, once: an application
    must not connect to a database before its server forks.
    """
    keeper = services().keeper
    try:
        return keeper.current()
    except CatalogUnavailable:
        if not _first_read.acquire(timeout=_FIRST_READ_SECONDS):
            raise
        try:
            return _first_snapshot(keeper)
        finally:
            _first_read.release()


def _first_snapshot(keeper: Keeper) -> Snapshot:
    try:
        return keeper.current()
    except CatalogUnavailable:
        keeper.refresh()
        keeper.start()
        return keeper.current()
