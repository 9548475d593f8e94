"""Answers from the catalog's past: snapshots of former revisions, made from the present one and kept for a while."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from threading import Lock
from typing import Final, Protocol

from sqlalchemy import Engine

from service.domain.calibration import Calibration
from service.domain.errors import CatalogUnavailable, Fault, ValidationError
from service.storage.calibrations import both_revisions_at, read_calibration
from service.storage.database import reading
from service.storage.history import first_revision_at, way_back
from service.storage.snapshot import Snapshot

# Each shares what has not changed since with the present one; what it holds beside that is its index of ids and names.
_SNAPSHOTS_KEPT: Final = 8


class Present(Protocol):
    """What keeps the present catalog; SnapshotKeeper does."""

    def current(self) -> Snapshot:
        """The snapshot at hand; raises CatalogUnavailable where there never was one."""

    def refresh(self) -> bool:
        """Read what changed; whether that could be done."""


class PastCatalogs:
    """Snapshots of the catalog as it was; the few that were asked for last stay in memory.

    Which revision a moment had is asked of the database each time (one row). A revision never changes, so a snapshot
    of one is the same however it was made, and from whichever process.
    """

    def __init__(
        self,
        database: Engine,
        present: Present,
        kept: int = _SNAPSHOTS_KEPT,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._present = present
        self._most = kept
        self._clock = clock
        self._kept: dict[int, Snapshot] = {}
        self._calibrations: dict[int, Calibration] = {}
        self._lock = Lock()

    def at(self, moment: datetime, pointer: str = "/as_of") -> Snapshot:
        """The catalog as it was at a moment.

        Raises ValidationError for a moment in the future and for one before the first revision, CatalogUnavailable
        where the present catalog cannot be read.
        """
        if moment > self._clock():
            detail = f"{_shown(moment)} is in the future: what the catalog will say then is not known."
            raise ValidationError(Fault(pointer, detail))
        with reading(self._database) as connection:
            revision, learned = both_revisions_at(connection, moment)
            if revision is None:
                raise ValidationError(Fault(pointer, _too_early(moment, first_revision_at(connection))))
        return self._taught(self._snapshot(revision), learned)

    def _taught(self, snapshot: Snapshot, learned: int) -> Snapshot:
        """The catalog with what had been learned by then."""
        if snapshot.calibration.revision == learned:
            return snapshot
        with self._lock:
            calibration = self._calibrations.pop(learned, None)
            if calibration is None:
                with reading(self._database) as connection:
                    calibration = read_calibration(connection, learned)
            self._calibrations[learned] = calibration
            if len(self._calibrations) > self._most:
                del self._calibrations[next(iter(self._calibrations))]
        return snapshot.taught(calibration)

    def _snapshot(self, revision: int) -> Snapshot:
        present = self._present_from(revision)
        if present.revision == revision:
            return present
        with self._lock:
            snapshot = self._kept.pop(revision, None)
            if snapshot is None or not snapshot.descends_with(present):
                snapshot = self._made(revision, present)
            self._kept[revision] = snapshot
            if len(self._kept) > self._most:
                del self._kept[next(iter(self._kept))]
        return snapshot

    def _present_from(self, revision: int) -> Snapshot:
        """The present snapshot, which must not be older than the one asked for."""
        present = self._present.current()
        if present.revision < revision:
            # Another process wrote it a moment ago.
            self._present.refresh()
            present = self._present.current()
        if present.revision < revision:
            raise CatalogUnavailable(Fault("", "The present catalog cannot be read: the database does not answer."))
        return present

    def _made(self, revision: int, present: Snapshot) -> Snapshot:
        with reading(self._database) as connection:
            return present.changed(way_back(connection, revision))


def _too_early(moment: datetime, first: datetime | None) -> str:
    begins = "it has no revision yet" if first is None else f"it begins at {_shown(first)}"
    return f"There was no catalog at {_shown(moment)}: {begins}."


def _shown(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
