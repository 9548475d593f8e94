"""Measurements in the database: taken in once each, found again, and judged again when the catalog learns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from threading import Lock
from typing import Final
from uuid import UUID

from sqlalchemy import Engine

from service.storage.measurement_settling import leads_to, mark, settle_some
from service.storage.measurement_writes import Known, PostgresqlWriter, SqliteWriter, UnsettledError
from service.storage.snapshot import Snapshot
from service.storage.tokens import Token
from service.storage.uploads import Name, Upload

_NAMES_KEPT: Final = 20_000
_USED_EVERY: Final = timedelta(minutes=1)


class MeasurementStore:
    """One for a process; safe to share between threads, and to make before a server forks."""

    def __init__(self, database: Engine) -> None:
        self._database = database
        self._writer = SqliteWriter(database) if database.dialect.name == "sqlite" else PostgresqlWriter(database)
        self._named: set[tuple[str, str]] = set()
        self._settling = Lock()
        self._settled: int | None = None

    def add(self, upload: Upload, snapshot: Snapshot) -> Known:
        """Store what is new, and return the digests of what was there before, once all is on the disk.

        Raises StaleCatalogError where `snapshot` is not the newest catalog that rows were judged by, OverBudgetError
        where the token has to wait, and the database's errors where it is away: then nothing was stored.
        """
        try:
            known = self._writer.write(upload)
        except UnsettledError:
            mark(self._database, snapshot)
            known = self._writer.write(replace(upload, charge=False))
        self._remember(upload)
        return known

    def known(self, ids: Sequence[UUID]) -> Known:
        """Digests of those of the ids that are stored already."""
        return self._writer.known(ids)

    def unnamed(self, names: set[tuple[str, str]]) -> set[tuple[str, str]]:
        """Those of the names that the database may not know yet."""
        return names - self._named

    def settle(self, snapshot: Snapshot) -> bool:
        """Judge a bounded number of rows again that the catalog has learned about; whether none is left.

        One thread of a process does it at a time; the others go on with what there is.
        """
        if self._settled == snapshot.revision:
            return True
        if not self._settling.acquire(blocking=False):
            return False
        try:
            mark(self._database, snapshot)
            done = settle_some(self._database, snapshot)
            if done:
                self._settled = snapshot.revision
            return done
        finally:
            self._settling.release()

    def _remember(self, upload: Upload) -> None:
        if len(self._named) > _NAMES_KEPT:
            self._named = set()
        self._named |= {(name.kind, name.name) for name in upload.names}


def used_lately(token: Token, moment: datetime) -> bool:
    """Whether the token's last use was noted within the last minute."""
    return token.last_used_at is not None and moment - token.last_used_at < _USED_EVERY


def name_of(kind: str, name: str, snapshot: Snapshot) -> Name:
    """A folded name with where it leads in a snapshot."""
    return Name(kind, name, *leads_to(snapshot, kind, name))
