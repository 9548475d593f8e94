"""Taking commands out of stored rows that tell what would not be taken today: a key, a path, a machine.

What a command says stays as the fields that it stands for, so that the row is taken for what it was. The text itself
is overwritten, not only let go.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, select, update

from service.domain.measurement import Lookups, model_name
from service.domain.private_words import private_in_command
from service.domain.row_commands import command_of, without_command
from service.storage import audit
from service.storage.canonical import sorted_json
from service.storage.database import reading
from service.storage.measurement_settling import JUDGED_COLUMNS, hold_judging, judge_again
from service.storage.measurement_tables import MEASUREMENT
from service.storage.snapshot import Snapshot
from service.storage.turns import Turns
from service.storage.uploads import UNHEARD, digest_of, folded

_ROWS_AT_ONCE: Final = 500
_COMMAND: Final = '"command":'


class Blanked(NamedTuple):
    """Rows whose command went, or would: those that have its fields instead, and those that nobody understood."""

    spelled_out: int
    dropped: int


class UnsettledCatalogError(Exception):
    """Rows are judged by another catalog at the moment: let it be settled first."""


def blank_commands(database: Engine, snapshot: Snapshot, author: str, *, dry_run: bool) -> Blanked:
    """Take private commands out of all stored rows, a few at once; raises UnsettledCatalogError."""
    lookups, turns, total = Lookups(snapshot, snapshot.distrust), Turns(database, _ROWS_AT_ONCE), Blanked(0, 0)
    for seqs in _private(database):
        while seqs:
            part, seqs = seqs[: turns.rows], seqs[turns.rows :]  # noqa: PLW2901  # what is left of them
            blanked = _dry(database, part, snapshot) if dry_run else _blank(turns, part, lookups, snapshot, author)
            total = Blanked(*(before + more for before, more in zip(total, blanked, strict=True)))
    if sum(total) and not dry_run:
        _forget_log(database)
    return total


def _private(database: Engine) -> Iterator[list[int]]:
    """Numbers of rows with a private command, some at a time."""
    last = 0
    while True:
        with reading(database) as connection:
            asked = select(MEASUREMENT.c.seq, MEASUREMENT.c.content).where(
                MEASUREMENT.c.seq > last, MEASUREMENT.c.content.contains(_COMMAND, autoescape=True)
            )
            found = connection.execute(asked.order_by(MEASUREMENT.c.seq).limit(_ROWS_AT_ONCE)).all()
        if not found:
            return
        last = found[-1].seq
        yield [seq for seq, content in found if _is_private(json.loads(content))]


def _is_private(content: dict[str, Any]) -> bool:
    command = command_of(content)
    return command is not None and private_in_command(command) is not None


def _dry(database: Engine, seqs: list[int], snapshot: Snapshot) -> Blanked:
    with reading(database) as connection:
        rows = connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.seq.in_(seqs))).all()
        return _counted([_rewritten(row, snapshot) for row in rows])


def _blank(turns: Turns, seqs: list[int], lookups: Lookups, snapshot: Snapshot, author: str) -> Blanked:
    with turns.take() as connection:
        if not hold_judging(connection, lookups):
            raise UnsettledCatalogError
        if connection.dialect.name == "sqlite":
            # What is overwritten is zeroed, also where a page keeps room.
            connection.exec_driver_sql("PRAGMA secure_delete = ON")
        rows = connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.seq.in_(seqs))).all()
        blanked = _counted([_write(connection, row, _rewritten(row, snapshot)) for row in rows])
        asked = select(*JUDGED_COLUMNS).where(MEASUREMENT.c.seq.in_(seqs)).order_by(MEASUREMENT.c.seq)
        judge_again(connection, connection.execute(asked).all(), lookups)
        audit.record(
            connection, audit.Event(author, "measurement.blanked", "measurement", note=f"{len(rows)} commands")
        )
    turns.did(len(rows))
    return blanked


def _rewritten(row: Row[Any], snapshot: Snapshot) -> tuple[dict[str, Any], bool]:
    """The row's content without its command, and whether something stands for it."""
    before = json.loads(row.content)
    after = without_command(before, snapshot)
    return after, len(after["setup"]) >= len(before["setup"])


def _write(
    connection: Connection, row: Row[Any], rewritten: tuple[dict[str, Any], bool]
) -> tuple[dict[str, Any], bool]:
    content = rewritten[0]
    text = sorted_json(content)
    named = folded(model_name(content)) if row.model_name == UNHEARD else row.model_name
    columns = {"content": text, "digest": digest_of(text), "model_name": named}
    connection.execute(update(MEASUREMENT).where(MEASUREMENT.c.seq == row.seq).values(columns))
    return rewritten


def _counted(rewritten: list[tuple[dict[str, Any], bool]]) -> Blanked:
    spelled = sum(stands for _, stands in rewritten)
    return Blanked(spelled, len(rewritten) - spelled)


def _forget_log(database: Engine) -> None:
    """On SQLite empty the write-ahead log, which holds pages as they were; elsewhere VACUUM is the operator's."""
    if database.dialect.name == "sqlite":
        with closing(database.raw_connection()) as connection:
            connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
