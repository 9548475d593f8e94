"""Writing uploads, one statement a thousand rows: arrays unnested on PostgreSQL, the driver's executemany on SQLite.

Both keep the first of equal ids and say of each row whether it was new, in one transaction with all that goes with it.
They go past SQLAlchemy's types, whose conversions would cost more than the insert (performance A4).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from sqlalchemy import Connection, Engine

from service.domain.measurement import RULES
from service.storage.database import begin_write
from service.storage.group_commit import GroupCommit
from service.storage.uploads import (
    Name,
    NewRow,
    OverBudgetError,
    StaleCatalogError,
    Upload,
    probe_counts,
)

JUDGING_LOCK: Final = 0x6A75646765
"""An advisory lock: uploads share it, and who moves the state of judging has it alone. Spells "judge" in ASCII."""

_REFUSALS: Final = (StaleCatalogError, OverBudgetError)
Known = dict[UUID, bytes]
"""Digests of those rows of an upload that were stored before it; all its others are stored by it."""

_COLUMNS: Final = (
    "id, probe_id, kind, measured_at, gpu_name, model_name, engine, verdict, detail, digest, content, "
    "received_at, token_id, catalog_revision, clock_skew_seconds"
)
_STATE: Final = (
    "SELECT catalog_revision, rules, (SELECT coalesce(max(id), 0) FROM trust_decision) FROM measurement_state "
    "WHERE id = 1"
)


class UnsettledError(Exception):
    """Stored rows were judged by an older catalog than the upload's: let them be marked first."""


class State(NamedTuple):
    """By what the stored rows were judged, and what decisions on senders there are."""

    catalog_revision: int
    rules: int
    trust_revision: int


def check_state(found: Sequence[Any] | None, upload: Upload) -> State:
    """The state, where an upload may be written beside it; raises StaleCatalogError or UnsettledError."""
    state = State(0, 0, 0) if found is None else State(*found)
    if state.catalog_revision > upload.catalog_revision or state.trust_revision > upload.trust_revision:
        raise StaleCatalogError
    # Newer rules are those of a release that is just being rolled out: what this one stores is marked for it.
    if state.catalog_revision < upload.catalog_revision or state.rules < RULES:
        raise UnsettledError
    return state


class PostgresqlWriter:
    """One transaction for each upload, and one that need not reach the disk for the token's budget."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def known(self, ids: Sequence[UUID]) -> Known:
        """Those of the ids that are stored: a repeat is told by reading alone, and nobody judges it."""
        with self._engine.connect() as connection:
            return _known_postgresql(connection, ids)

    def write(self, upload: Upload) -> Known:
        """Store what is new; raises what check_state and Upload.check raise, after the budget was charged."""
        if upload.charge:
            self._charge(upload)
        if not upload.rows:
            return {}
        with self._engine.begin() as connection:
            connection.exec_driver_sql("SELECT pg_advisory_xact_lock_shared(%s)", (JUDGING_LOCK,))
            state = check_state(connection.exec_driver_sql(_STATE).first(), upload)
            _name_postgresql(connection, upload.names)
            if state.rules > RULES:
                _mark(connection, upload.names, "%s")
            return _insert_postgresql(connection, upload)

    def _charge(self, upload: Upload) -> None:
        with self._engine.begin() as connection:
            # Nobody is answered by this count, and uploads of one token would queue for its flush.
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            _spend_postgresql(connection, upload)


def _spend_postgresql(connection: Connection, upload: Upload) -> None:
    spent = connection.exec_driver_sql(
        "INSERT INTO upload_budget AS b (token_id, minute, rows_sent, bytes_sent) VALUES (%s, %s, %s, %s) "
        "ON CONFLICT (token_id) DO UPDATE SET minute = excluded.minute, "
        "rows_sent = excluded.rows_sent + CASE WHEN b.minute = excluded.minute THEN b.rows_sent ELSE 0 END, "
        "bytes_sent = excluded.bytes_sent + CASE WHEN b.minute = excluded.minute THEN b.bytes_sent ELSE 0 END "
        "RETURNING rows_sent, bytes_sent",
        (upload.token_id, upload.minute, upload.rows_sent, upload.bytes_sent),
    ).one()
    # Raised inside the transaction, so that what is refused is not counted.
    upload.check(*spent)
    if upload.note_use:
        connection.exec_driver_sql(
            "UPDATE api_token SET last_used_at = %s WHERE id = %s", (upload.received_at, upload.token_id)
        )


def _name_postgresql(connection: Connection, names: Sequence[Name]) -> None:
    if names:
        # In one order everywhere: two uploads that bring the same new names wait for each other, and not in a circle.
        columns = [list(column) for column in zip(*sorted(names, key=lambda name: name[:2]), strict=True)]
        connection.exec_driver_sql(
            "INSERT INTO measurement_name (kind, name, entry_id, entry_revision, pending, done_seq) "
            "SELECT t.*, false, 0 FROM unnest(%s::text[], %s::text[], %s::text[], %s::int[]) AS t "
            "ON CONFLICT (kind, name) DO NOTHING",
            tuple(columns),
        )


def _insert_postgresql(connection: Connection, upload: Upload) -> Known:
    # By id, so that two uploads of the same rows in other orders wait for each other, and not in a circle.
    rows = sorted(upload.rows, key=lambda row: row.id.int)
    columns = [list(column) for column in zip(*rows, strict=True)]
    inserted = {row[0] for row in connection.exec_driver_sql(_INSERT_POSTGRESQL, (*_common(upload), *columns))}
    _count_postgresql(connection, [row for row in rows if row.id in inserted], upload.received_at)
    return _known_postgresql(connection, [row.id for row in rows if row.id not in inserted])


def _common(upload: Upload) -> tuple[Any, ...]:
    return upload.received_at, upload.token_id, upload.catalog_revision, upload.clock_skew_seconds


# %b sends arrays in PostgreSQL's binary form: quoting a thousand texts in Python would take longer than the rest.
_INSERT_POSTGRESQL: Final = (
    f"INSERT INTO measurement ({_COLUMNS}) "  # noqa: S608  # the names above
    "SELECT t.*, %s::timestamptz, %s, %s, %s::float8 FROM unnest(%b::uuid[], %b::uuid[], %b::text[], "
    "%b::timestamptz[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[], %b::text[]) AS t "
    "ON CONFLICT (id) DO NOTHING RETURNING id"
)


def _known_postgresql(connection: Connection, ids: Sequence[UUID]) -> Known:
    if not ids:
        return {}
    statement = "SELECT id, digest FROM measurement WHERE id = ANY(%b::uuid[])"
    return {row[0]: bytes(row[1]) for row in connection.exec_driver_sql(statement, (list(ids),))}


def _count_postgresql(connection: Connection, rows: Sequence[NewRow], received_at: datetime) -> None:
    if rows:
        columns = [list(column) for column in zip(*probe_counts(rows), strict=True)]
        connection.exec_driver_sql(
            _count(
                "SELECT t.probe, %s::timestamptz, %s::timestamptz, t.newest, t.a, t.u, t.q FROM unnest(%s::uuid[], "
                "%s::timestamptz[], %s::bigint[], %s::bigint[], %s::bigint[]) AS t(probe, newest, a, u, q)",
                "GREATEST",
            ),
            (received_at, received_at, *columns),
        )


def _count(rows: str, greatest: str) -> str:
    return (
        "INSERT INTO measurement_probe AS p (probe_id, first_received_at, last_received_at, last_measured_at, "
        f"accepted, unmatched, quarantined) {rows} ON CONFLICT (probe_id) DO UPDATE SET "
        f"last_received_at = {greatest}(p.last_received_at, excluded.last_received_at), "
        f"last_measured_at = {greatest}(p.last_measured_at, excluded.last_measured_at), "
        "accepted = p.accepted + excluded.accepted, unmatched = p.unmatched + excluded.unmatched, "
        "quarantined = p.quarantined + excluded.quarantined"
    )


def _mark(connection: Connection, names: Sequence[Name], mark: str) -> None:
    """Have what names lead to judged again, from the first row on."""
    statement = (
        "UPDATE measurement_name SET pending = true, done_at = NULL, done_seq = 0 "  # noqa: S608  # a parameter's mark
        f"WHERE kind = {mark} AND name = {mark}"
    )
    for name in names:
        connection.exec_driver_sql(statement, (name.kind, name.name))


class SqliteWriter:
    """All uploads that wait in one process as one transaction, so that they share a flush of the disk."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._line: GroupCommit[Upload, Known | Exception] = GroupCommit(self._write_all)

    def known(self, ids: Sequence[UUID]) -> Known:
        """Those of the ids that are stored: a repeat is told by reading alone, and nobody judges it."""
        with self._engine.connect() as connection:
            return _known_sqlite(connection, ids)

    def write(self, upload: Upload) -> Known:
        """Store what is new; raises what check_state and Upload.check raise, after the budget was charged."""
        outcome = self._line.run(upload)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _write_all(self, uploads: Sequence[Upload]) -> list[Known | Exception]:
        outcomes: list[Known | Exception] = []
        with self._engine.connect() as connection:
            begin_write(connection)
            with connection.begin():
                for upload in uploads:
                    try:
                        outcomes.append(_write_sqlite(connection, upload))
                    except (*_REFUSALS, UnsettledError) as refusal:
                        # Raised before any row of that upload is written: the others go on.
                        outcomes.append(refusal)
        return outcomes


def _write_sqlite(connection: Connection, upload: Upload) -> Known:
    if upload.charge:
        _charge_sqlite(connection, upload)
    if not upload.rows:
        return {}
    state = check_state(connection.exec_driver_sql(_STATE).first(), upload)
    if upload.names:
        connection.exec_driver_sql(
            "INSERT OR IGNORE INTO measurement_name (kind, name, entry_id, entry_revision, pending, done_seq) "
            "VALUES (?, ?, ?, ?, 0, 0)",
            [tuple(name) for name in upload.names],
        )
    if state.rules > RULES:
        _mark(connection, upload.names, "?")
    return _insert_sqlite(connection, upload)


def _charge_sqlite(connection: Connection, upload: Upload) -> None:
    spent = _spent_sqlite(connection, upload)
    upload.check(*spent)
    connection.exec_driver_sql(
        "INSERT OR REPLACE INTO upload_budget VALUES (?, ?, ?, ?)", (upload.token_id, upload.minute, *spent)
    )
    if upload.note_use:
        connection.exec_driver_sql(
            "UPDATE api_token SET last_used_at = ? WHERE id = ?", (_text(upload.received_at), upload.token_id)
        )


def _spent_sqlite(connection: Connection, upload: Upload) -> tuple[int, int]:
    """What the token will have sent in this minute, with the upload."""
    found = connection.exec_driver_sql(
        "SELECT rows_sent, bytes_sent FROM upload_budget WHERE token_id = ? AND minute = ?",
        (upload.token_id, upload.minute),
    ).first()
    before = (0, 0) if found is None else found
    return before[0] + upload.rows_sent, before[1] + upload.bytes_sent


def _insert_sqlite(connection: Connection, upload: Upload) -> Known:
    # Nobody else writes meanwhile, so that whatever is numbered later is of this upload.
    last = connection.exec_driver_sql("SELECT coalesce(max(seq), 0) FROM measurement").scalar_one()
    received_at, *common = _common(upload)
    arrived = _text(received_at)
    inserted = connection.exec_driver_sql(
        f"INSERT INTO measurement ({_COLUMNS}) VALUES ({', '.join('?' * 15)}) "  # noqa: S608  # the names above
        "ON CONFLICT (id) DO NOTHING",
        [(row[0].hex, row[1].hex, row[2], _text(row[3]), *row[4:], arrived, *common) for row in upload.rows],
    )
    all_new = inserted.rowcount == len(upload.rows)
    known = {} if all_new else _known_sqlite(connection, [row.id for row in upload.rows], last)
    new = [row for row in upload.rows if row.id not in known]
    if new:
        connection.exec_driver_sql(
            _count("VALUES (?, ?, ?, ?, ?, ?, ?)", "max"),
            [(c[0].hex, arrived, arrived, _text(c[1]), *c[2:]) for c in probe_counts(new)],
        )
    return known


def _known_sqlite(connection: Connection, ids: Sequence[UUID], last: int | None = None) -> Known:
    """Those of the ids that are stored; of rows numbered up to `last` where it is given."""
    by_text = {each.hex: each for each in ids}
    statement = f"SELECT id, digest, seq FROM measurement WHERE id IN ({', '.join('?' * len(by_text))})"  # noqa: S608  # marks
    found = connection.exec_driver_sql(statement, tuple(by_text))
    return {by_text[row[0]]: bytes(row[1]) for row in found if last is None or row[2] <= last}


def _text(moment: datetime) -> str:
    """A time as SQLAlchemy's own type writes it on SQLite."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(" ", "microseconds")
