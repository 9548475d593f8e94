"""Pages of measurements and of probes: rows as they are answered, with the verdict of now."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import Row
from sqlalchemy.exc import OperationalError

from service.api.list_filters import after, cursor_after, cut, folded_names, foreign_cursor, page_limit, row_number
from service.api.measurement_intake import store
from service.api.schemas.closed import Asked
from service.api.schemas.fields import MisreadError, Moment
from service.api.schemas.measurement_fields import Uuid
from service.api.schemas.measurements import MEASUREMENT_COLUMNS, PROBE_COLUMNS
from service.api.services import services, snapshot
from service.api.tables import Table
from service.domain.catalog import CatalogKind
from service.domain.measurement import Lookups, judge
from service.domain.trust import Decision, Sender
from service.storage.measurement_reads import (
    MeasurementFilter,
    Pending,
    find_measurement,
    find_measurements,
    find_probes,
    names_leading_to,
)
from service.storage.measurement_settling import pending_names
from service.storage.snapshot import Snapshot
from service.storage.trust import has_unsettled

# Rows read for one page at most, where stored verdicts are old: a short page has a cursor too.
_ROWS_JUDGED, _ROWS_AT_ONCE = 5000, 250

Shown = dict[str, Any]

_read_moment, _read_uuid = Moment().read, Uuid().read


def measurement_document(measurement_id: UUID) -> Shown | None:
    """One measurement as it is answered; None where there is none of that id."""
    row = find_measurement(services().engine, measurement_id)
    catalog = snapshot()
    return None if row is None else _shown(row, Lookups(catalog, catalog.distrust))


def measurements_page(asked: Asked) -> Table:
    """The page that was asked for."""
    catalog = snapshot()
    wanted = _filter(asked, _after(asked), catalog)
    shown, last = _collect(wanted, frozenset(asked.get("verdict", ())), page_limit(asked), catalog)
    cursor = None if last is None else cursor_after(asked, (last.measured_at.isoformat(), str(last.seq)))
    return Table(MEASUREMENT_COLUMNS, shown, {"next_cursor": cursor, "catalog_revision": catalog.revision})


def probes_page(asked: Asked) -> Table:
    """The page that was asked for."""
    found = find_probes(services().engine, _after_probe(asked), page_limit(asked) + 1)
    page, cursor = cut(asked, found, lambda probe: [str(probe.probe_id)])
    distrusted = snapshot().distrust.senders
    shown = [_probe(probe, distrusted.get((Sender.PROBE, str(probe.probe_id)))) for probe in page]
    return Table(PROBE_COLUMNS, shown, {"next_cursor": cursor})


def _collect(
    asked: MeasurementFilter, verdicts: frozenset[str], limit: int, catalog: Snapshot
) -> tuple[list[Shown], Row[Any] | None]:
    """Rows whose verdict of now is one of those asked for, and the last row looked at where there may be more."""
    lookups, pending = Lookups(catalog, catalog.distrust), _pending(catalog)
    shown: list[Shown] = []
    last: Row[Any] | None = None
    for looked_at, row in enumerate(_rows(asked, _count(limit, pending), pending)):
        if len(shown) == limit or looked_at == _ROWS_JUDGED:
            return shown, last
        last = row
        one = _shown(row, lookups)
        if not verdicts or one["verdict"] in verdicts:
            shown.append(one)
    return shown, None


def _count(limit: int, pending: Pending) -> int:
    """Rows read at once: one beyond the page, and more where some of them may not be on it."""
    return limit + 1 if pending is not None and not pending else max(limit + 1, _ROWS_AT_ONCE)


def _rows(asked: MeasurementFilter, count: int, pending: Pending) -> Iterator[Row[Any]]:
    """Rows in order, read some at a time."""
    while True:
        found = find_measurements(services().engine, asked, count, pending)
        yield from found
        if len(found) < count:
            return
        asked = _beyond(asked, found[-1])


def _beyond(asked: MeasurementFilter, last: Row[Any]) -> MeasurementFilter:
    return MeasurementFilter(
        asked.kinds,
        asked.gpu_names,
        asked.model_names,
        asked.engines,
        asked.verdicts,
        asked.probe_id,
        asked.since,
        asked.until,
        (last.measured_at, last.seq),
    )


def _pending(catalog: Snapshot) -> Pending:
    """The names whose stored verdicts are old, after some of them were judged again."""
    try:
        if has_unsettled(services().engine):
            return None
        return () if store().settle(catalog) else pending_names(services().engine)
    except OperationalError:
        # Somebody holds the database: what is read is judged here, whatever verdict was stored.
        return None


def _filter(asked: Asked, begins: tuple[datetime, int] | None, catalog: Snapshot) -> MeasurementFilter:
    return MeasurementFilter(
        kinds=asked.get("kind", ()),
        gpu_names=_names(CatalogKind.GPU, asked.get("gpu"), catalog),
        model_names=_names(CatalogKind.MODEL, asked.get("model"), catalog),
        engines=folded_names(asked.get("engine")) or (),
        verdicts=asked.get("verdict", ()),
        probe_id=UUID(asked["probe_id"]) if "probe_id" in asked else None,
        since=_moment(asked.get("since")),
        until=_moment(asked.get("until")),
        after=begins,
    )


def _names(kind: CatalogKind, asked: Sequence[str] | None, catalog: Snapshot) -> set[str] | None:
    if asked is None:
        return None
    names: set[str] = set()
    for name in asked:
        names |= names_leading_to(services().engine, kind, name, catalog)
    return names


def _moment(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _shown(row: Row[Any], lookups: Lookups) -> Shown:
    content = json.loads(row.content)
    judged = judge(content, row.received_at, lookups, row.token_id)
    return {
        "id": str(row.id),
        "probe_id": str(row.probe_id),
        "kind": row.kind,
        "measured_at": _text(row.measured_at),
        "received_at": _text(row.received_at),
        "clock_skew_seconds": row.clock_skew_seconds,
        "verdict": judged.verdict.value,
        "detail": judged.detail,
        "gpu_id": judged.gpu_id,
        "model_id": judged.model_id,
        **{name: content.get(name) for name in ("gpu", "software", "setup", "values", "samples")},
    }


def _probe(probe: Row[Any], distrusted: Decision | None) -> Shown:
    rows = probe.accepted + probe.unmatched + probe.quarantined
    return {
        "probe_id": str(probe.probe_id),
        "first_received_at": _text(probe.first_received_at),
        "last_received_at": _text(probe.last_received_at),
        "last_measured_at": _text(min(probe.last_measured_at, probe.last_received_at)),
        "measurements": rows,
        "accepted": probe.accepted,
        "unmatched": probe.unmatched,
        "quarantined": probe.quarantined,
        "accepted_share": probe.accepted / rows if rows else None,
        "distrusted": distrusted is not None,
        "distrusted_since": _text(distrusted.since) if distrusted and distrusted.since else None,
        "distrust_reason": distrusted.reason if distrusted else None,
    }


def _text(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _after(asked: Asked) -> tuple[datetime, int] | None:
    """Where the last page ended."""
    key = after(asked, 2)
    if key is None:
        return None
    try:
        return datetime.fromisoformat(_read_moment(key[0])), row_number(key[1])
    except MisreadError:
        raise foreign_cursor() from None


def _after_probe(asked: Asked) -> UUID | None:
    key = after(asked, 1)
    try:
        return UUID(_read_uuid(key[0])) if key else None
    except MisreadError:
        raise foreign_cursor() from None
