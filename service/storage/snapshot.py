"""The catalog as quotes read it: whole, in memory, at one revision, without SQL and without locks on the way."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import Connection
from sqlalchemy import Engine as DatabaseEngine

from service.domain import engines, gpu, model, precision
from service.domain.calibration import NOTHING_LEARNED, Calibration
from service.domain.catalog import CatalogKind, Entry
from service.domain.errors import (
    CatalogUnavailable,
    Fault,
    NotSupported,
    QuoteError,
    UnknownGpu,
    UnknownModel,
    ValidationError,
)
from service.domain.gpu import Gpu
from service.domain.measurement_limits import NAMES
from service.domain.model import Model
from service.domain.naming import NamedModel
from service.domain.precision import NumberFormat
from service.domain.scopes import NO_ENGINE
from service.domain.trust import NOBODY_DISTRUSTED, Distrust
from service.storage.calibrations import Revisions, look_at_revisions, newest_revisions, read_calibration
from service.storage.catalog import CatalogDelta, StoredEntry, read_entries
from service.storage.database import reading
from service.storage.kind_entries import KindEntries, changed_entries, suggest_names
from service.storage.listing import Listing, page_ids
from service.storage.names import fold, last_part
from service.storage.shipped import MEASUREMENTS, shipped_limits
from service.storage.trust import read_distrust
from service.storage.values import VALUES_KEPT, Value, ValueCache, parsed

if TYPE_CHECKING:
    from service.domain.engines import Engine

_logger: Final = logging.getLogger(__name__)

# Bound of what a worker keeps of the names that were asked for.
_NAMES_KEPT: Final = 4096
_LONGEST_NAME_REPEATED: Final = 64
_FIRST_WAIT_SECONDS: Final = 0.5
# Whose names take longer to gather than a question should wait: those of 400 models take 20 ms, and 1 MiB for good.
_MANY_ENTRIES: Final = 1000

_UNKNOWN: Final[Mapping[CatalogKind, type[QuoteError]]] = {
    CatalogKind.MODEL: UnknownModel,
    CatalogKind.GPU: UnknownGpu,
    CatalogKind.ENGINE: NotSupported,
}
_WORDS: Final = {CatalogKind.GPU: "GPU", CatalogKind.DTYPE: "number format"}

# Found once, since Python 3.11 calls a function for each: every quote asks for several.
_MODEL, _GPU, _DTYPE, _ENGINE = CatalogKind.MODEL, CatalogKind.GPU, CatalogKind.DTYPE, CatalogKind.ENGINE


class Snapshot:
    """The catalog at one revision. Safe to share between threads: what it looks up does not change.

    Names may be slugs, aliases, hub ids or the last part of a hub id, in any case. A name that nothing answers to
    raises UnknownModel, UnknownGpu, NotSupported for an engine or ValidationError, at the pointer given.
    """

    __slots__ = ("_asked", "_kinds", "_named", "_values", "calibration", "distrust", "revision")

    def __init__(self, revision: int, kinds: Mapping[CatalogKind, KindEntries], values: ValueCache) -> None:
        self.revision = revision
        self.calibration = NOTHING_LEARNED
        self.distrust = NOBODY_DISTRUSTED
        self._kinds = kinds
        self._values = values
        self._asked: dict[CatalogKind, dict[str, Any]] = {kind: {} for kind in CatalogKind}
        self._named: dict[str, NamedModel] = {}

    @classmethod
    def empty(cls, values: ValueCache | None = None) -> Snapshot:
        """A catalog without entries, at revision 0."""
        return cls(0, {kind: KindEntries() for kind in CatalogKind}, values or ValueCache())

    def advanced(self, delta: CatalogDelta) -> Snapshot:
        """The next snapshot, with a delta on top of this one; kinds without a change are shared.

        For the one thread that keeps the catalog: it also takes new names into the index of names to suggest.
        """
        ahead = self.changed(delta)
        for entry in delta.entries:
            suggest_names(self._kinds[entry.kind], ahead._kinds[entry.kind], entry)  # noqa: SLF001  # of its own class
        return ahead

    def changed(self, delta: CatalogDelta) -> Snapshot:
        """A snapshot beside this one, later or earlier, with a delta on top; for any thread."""
        kinds = dict(self._kinds)
        for kind in {entry.kind for entry in delta.entries} | {kind for kind, _ in delta.deleted}:
            kinds[kind] = changed_entries(self._kinds[kind], kind, delta)
        return Snapshot(delta.revision, kinds, self._values)

    def taught(self, calibration: Calibration, distrust: Distrust | None = None) -> Snapshot:
        """This catalog with what measurements taught beside it, and whose are not believed."""
        beside = Snapshot(self.revision, self._kinds, self._values)
        # Names lead where they led, whatever was learned.
        beside._asked, beside._named = self._asked, self._named
        beside.distrust = distrust or self.distrust
        beside.calibration = replace(calibration, changed=self._changed_after(calibration.catalog_revision))
        return beside

    def _changed_after(self, revision: int) -> frozenset[str]:
        """Devices and engines that the catalog changed since."""
        entries = (*self._kinds[CatalogKind.GPU].entries.values(), *self._kinds[CatalogKind.ENGINE].entries.values())
        return frozenset(entry.id for entry in entries if entry.revision > revision)

    def compared_revision(self) -> int:
        """The newest revision of an entry that measurements are compared with."""
        kinds = (CatalogKind.GPU, CatalogKind.ENGINE, CatalogKind.MODEL, CatalogKind.DTYPE)
        return max((entry.revision for kind in kinds for entry in self._kinds[kind].entries.values()), default=0)

    def descends_with(self, other: Snapshot) -> bool:
        """Whether both come from one database, so that a revision means the same in both."""
        return self._values is other._values

    def model(self, name: str, pointer: str = "/model") -> Model:
        """The model of that name; raises as well what its config is refused for, such as UnknownArchitecture."""
        return self._value(_MODEL, name, pointer, model.from_facts)

    def named_model(self, name: str, pointer: str = "/model") -> NamedModel:
        """The model that a name leads to, a derivative's to its base, with the number formats that the name states.

        Raises UnknownModel where nothing explains the name, or where it has several readings or an unclear format.
        """
        return self._named.get(name) or _kept(self._named, name, self._read_name(name, pointer))

    def _read_name(self, name: str, pointer: str) -> NamedModel:
        models = self._kinds[CatalogKind.MODEL]
        reading = None if models.find(name) else models.read(fold(name.strip()))
        if reading is None:
            return NamedModel(self.model(name, pointer))
        if len(reading.ids) > 1:
            raise _unknown(CatalogKind.MODEL, name, pointer, reading.ids, models)
        return reading.named(name, self.model(reading.ids[0], pointer), pointer)

    def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:
        """The device of that name."""
        return self._value(_GPU, name, pointer, gpu.from_facts)

    def sized_gpus(self, name: str) -> tuple[Gpu, ...]:
        """The devices that share a name but for the size of memory behind it; none where no device is called so."""
        return tuple(self.gpu(entry_id) for entry_id in self._kinds[_GPU].sized(name))

    def format(self, name: str, pointer: str = "/weight_dtype") -> NumberFormat:
        """The number format of that name."""
        found: NumberFormat | None = self._asked[_DTYPE].get(name)
        return found or self._value(_DTYPE, name, pointer, precision.from_facts)

    def engine(self, name: str, pointer: str = "/engine") -> Engine:
        """The policy of that engine."""
        return self._value(_ENGINE, name, pointer, _engine)

    def ids(self, kind: CatalogKind) -> tuple[str, ...]:
        """Every id of a kind, in order."""
        entries = self._kinds[kind]
        if entries.ids is None:
            entries.ids = tuple(sorted(entries.entries))
        return entries.ids

    def entry(self, kind: CatalogKind, name: str, pointer: str = "") -> Entry:
        """The entry of that name, parsed anew."""
        return parsed(self.stored(kind, name, pointer))

    def page(self, kind: CatalogKind, asked: Listing) -> tuple[list[Entry], bool]:
        """The entries of a page, parsed anew, and whether another page follows."""
        entries = self._kinds[kind]
        found, more = page_ids(kind, self.ids(kind), entries.rows, entries.containing, asked)
        return [parsed(entries.entries[entry_id]) for entry_id in found], more

    def by_id(self, kind: CatalogKind, entry_id: str) -> StoredEntry | None:
        """The entry of exactly that id, its facts not parsed; None where there is none."""
        return self._kinds[kind].entries.get(entry_id)

    def owners(self, kind: CatalogKind, folded: str) -> tuple[str, ...]:
        """Ids of the entries that state a folded name themselves, as id, alias or hub id."""
        entries = self._kinds[kind]
        owners = entries.names.stated(folded)
        return (folded, *owners) if folded in entries.entries else owners

    def ids_of(self, kind: CatalogKind, name: str) -> tuple[str, ...]:
        """Ids that a name leads to: none, one, or several where it is ambiguous."""
        return self._kinds[kind].find(name)

    def facts(self, kind: CatalogKind, name: str, pointer: str = "") -> Mapping[str, Any]:
        """The facts of the entry of that name, parsed anew."""
        return self.entry(kind, name, pointer).facts

    def read_values(self) -> None:
        """Read every model, GPU and format, which the first question for each would otherwise do.

        For a process that others are forked from, which then share them. A catalog with more than are kept waits for
        its questions.
        """
        kinds: tuple[tuple[CatalogKind, Callable[[str], object]], ...] = (
            (_MODEL, self.model),
            (_GPU, self.gpu),
            (_DTYPE, self.format),
        )
        if sum(len(self.ids(kind)) for kind, _ in kinds) > VALUES_KEPT:
            return
        for kind, read in kinds:
            for entry_id in self.ids(kind):
                # Whatever is wrong with one is told to whoever asks for it, and must not keep a server from its start.
                with suppress(Exception):
                    read(entry_id)

    def gather_names(self, least: int = 0) -> None:
        """Prepare the search for nearest names, which the first mistyped name would otherwise wait for.

        Of kinds with at least so many entries.
        """
        large = {kind: entries for kind, entries in self._kinds.items() if len(entries.entries) >= least}
        for entries in large.values():
            entries.index()
        if _MODEL in large:
            large[_MODEL].read("")

    def _value(self, kind: CatalogKind, name: str, pointer: str, build: Callable[[Entry], Value]) -> Value:
        asked = self._asked[kind]
        value: Value | None = asked.get(name)
        if value is None:
            value = _kept(asked, name, self._values.get(self.stored(kind, name, pointer), build))
        return value

    def stored(self, kind: CatalogKind, name: str, pointer: str = "") -> StoredEntry:
        """The entry of that name, its facts not parsed."""
        entries = self._kinds[kind]
        found = entries.find(name)
        if len(found) == 1:
            return entries.entries[found[0]]
        raise _unknown(kind, name, pointer, found, entries)


def first_wait_seconds(refresh_seconds: float) -> float:
    """How old a catalog may be that a process begins with, and how long its timer waits at first.

    Both together are no more than the timer waits later: a change is seen as soon as it is promised from the start.
    """
    return min(_FIRST_WAIT_SECONDS, refresh_seconds / 2)


class SnapshotKeeper:
    """Keeps this process's snapshot close to the database, by a timer and at once after a write of its own.

    Other processes may answer from the former catalog for as long as the timer waits, which is why every answer
    carries the revision. One database row is read where nothing changed, and only what changed otherwise.
    """

    def __init__(self, database: DatabaseEngine, refresh_seconds: float = 1.0) -> None:
        self._database = database
        self._refresh_seconds = refresh_seconds
        self._snapshot: Snapshot | None = None
        self._refreshing = Lock()
        self._stopped = Event()
        self._timer: Thread | None = None
        self._timer_pid: int | None = None
        self._failing = False

    def current(self) -> Snapshot:
        """The snapshot, without SQL; raises CatalogUnavailable where the catalog could never be read."""
        if self._timer_pid is not None and self._timer_pid != os.getpid():
            self.start()
        snapshot = self._snapshot
        if snapshot is None:
            raise CatalogUnavailable(Fault("", "The catalog has not been read yet: the database does not answer."))
        return snapshot

    def refresh(self) -> bool:
        """Read what changed; False, with the former snapshot kept, where the database does not answer."""
        with self._refreshing:
            try:
                self._snapshot = self._read(self._snapshot)
            except Exception as error:  # noqa: BLE001  # whatever it was: a timer that dies answers from an old catalog for ever
                self._note_failure(error)
                return False
        self._note_success()
        return True

    def start(self) -> None:
        """Refresh now and then on from a thread of this process; again in a child that was forked with one running."""
        pid = os.getpid()
        if self._timer_pid == pid:
            return
        # A fork copies locks as they are, perhaps held by a thread that the child does not have.
        self._refreshing, self._stopped = Lock(), Event()
        self._timer_pid = pid
        self._timer = Thread(target=self._keep_refreshing, args=(self._stopped,), name="catalog-refresh", daemon=True)
        self._timer.start()

    def stop(self) -> None:
        """End the thread and wait for it."""
        self._stopped.set()
        if self._timer is not None and self._timer_pid == os.getpid():
            self._timer.join()
        self._timer = self._timer_pid = None

    def _keep_refreshing(self, stopped: Event) -> None:
        # Whoever starts this has just read the catalog, and has first questions to answer.
        wait = first_wait_seconds(self._refresh_seconds)
        while not stopped.wait(wait):
            wait = self._refresh_seconds
            if self.refresh() and self._snapshot is not None:
                self._snapshot.gather_names(_MANY_ENTRIES)

    def _read(self, former: Snapshot | None) -> Snapshot:
        if former is not None and look_at_revisions(self._database) == _revisions(former):
            return former
        with reading(self._database) as connection:
            newest = newest_revisions(connection)
            catalog = self._read_catalog(connection, former, newest.catalog)
            kept = former if former is not None and catalog.descends_with(former) else None
            learned = kept.calibration if kept and kept.calibration.revision == newest.calibration else None
            distrust = kept.distrust if kept and kept.distrust.revision == newest.trust else None
            if distrust is None:
                distrust = read_distrust(connection) if newest.trust else NOBODY_DISTRUSTED
            return catalog.taught(learned or read_calibration(connection, newest.calibration), distrust)

    @staticmethod
    def _read_catalog(connection: Connection, former: Snapshot | None, revision: int) -> Snapshot:
        if former is not None and former.revision == revision:
            return former
        if former is None or revision < former.revision:
            # A lower revision is another database, or this one restored from a backup: there the same entry at the
            # same revision may say something else than the values kept from here.
            return Snapshot.empty().advanced(read_entries(connection))
        return former.advanced(read_entries(connection, former.revision))

    def _note_failure(self, error: Exception) -> None:
        if not self._failing:
            kept = "none" if self._snapshot is None else f"revision {self._snapshot.revision}"
            _logger.warning("catalog cannot be read, kept: %s (%s)", kept, _first_line(error))
        self._failing = True

    def _note_success(self) -> None:
        if self._failing:
            _logger.info("catalog can be read again")
        self._failing = False


def _engine(entry: Entry) -> Engine:
    """The policy; what measurements are held to comes from the shipped files where the catalog does not say it yet."""
    if entry.id == NO_ENGINE:
        told = entry.facts.get(MEASUREMENTS) or {}
        if not told.keys() >= NAMES:
            entry = replace(entry, facts={**entry.facts, MEASUREMENTS: {**shipped_limits(), **told}})
    return engines.from_facts(entry)


def _revisions(snapshot: Snapshot) -> Revisions:
    return Revisions(snapshot.revision, snapshot.calibration.revision, snapshot.distrust.revision)


def _kept(asked: dict[str, Value], name: str, value: Value) -> Value:
    if len(asked) >= _NAMES_KEPT:
        asked.clear()
    asked[name] = value
    return value


def _unknown(kind: CatalogKind, name: str, pointer: str, found: tuple[str, ...], entries: KindEntries) -> QuoteError:
    word = _WORDS.get(kind, kind.value)
    shown = repr(name[:_LONGEST_NAME_REPEATED])
    if found:
        detail, nearest = f"{shown} may mean more than one {word}.", found
    else:
        nearest = entries.index().search(last_part(fold(name[-_LONGEST_NAME_REPEATED:])), entries.only)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        detail = f"The catalog has no {word} named {shown}.{hint}"
    return _UNKNOWN.get(kind, ValidationError)(Fault(pointer, detail, nearest))


def _first_line(error: Exception) -> str:
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {str(cause).partition(chr(10))[0]}"
