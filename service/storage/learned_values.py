"""From samples to learned values, and what of them differs from what is stored: written as one revision, or not at all.

Samples are read and learned from outside of the transaction that writes, so that uploads never wait for statistics.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Engine, Row, func, insert, select, update

from service.domain.calibration import Learned, Quantity, Scope
from service.domain.learning import Key, Observation, Sample, learn, merged
from service.storage.calibrations import calibration_revision, learned_from, written
from service.storage.database import hold, reading, writing
from service.storage.measurement_tables import LEARNING_SAMPLE, LEARNING_STATE
from service.storage.snapshot import Snapshot
from service.storage.tables import CALIBRATION_REVISION, CALIBRATION_VALUE

LEARNER_LOCK: Final = 0x6C6561726E
"""An advisory lock: one process takes up rows at a time, or writes a revision. Spells "learn" in ASCII."""

# What is not worth a new row of history: a small part of a difference that means nothing, and a few more of many.
_PART, _FEW, _OLD = 0.125, 0.05, timedelta(days=1)


class _Read(NamedTuple):
    """Samples with what was stored when they were read."""

    taken: int
    revision: int
    catalog_revision: int
    samples: list[Sample]

    @property
    def rows(self) -> int:
        """How many rows the samples are of."""
        return sum(sample.rows for sample in self.samples)


def learning_state(connection: Connection) -> Row[Any] | None:
    """How far learning came, None before the first time."""
    return connection.execute(select(LEARNING_STATE).where(LEARNING_STATE.c.id == 1)).one_or_none()


def write_revision(database: Engine, snapshot: Snapshot) -> tuple[int | None, int]:
    """Learn from all samples, where any changed; the revision that came of it, and how many samples there are."""
    with reading(database) as connection:
        state = learning_state(connection)
        if state is None or state.taken == state.learned:
            return None, connection.scalar(select(func.count()).select_from(LEARNING_SAMPLE)) or 0
        oldest = connection.scalar(select(func.min(LEARNING_SAMPLE.c.catalog_revision)))
        compared = min(snapshot.revision, oldest) if oldest else snapshot.revision
        read = _Read(state.taken, calibration_revision(connection), compared, read_samples(connection))
        stored = _stored(connection)
    learned = learn(read.samples)
    changed = {key: value for key, value in learned.items() if _differs(stored.get(key), value)}
    gone = [key for key in stored if key not in learned or key in changed]
    with writing(database) as connection:
        hold(connection, LEARNER_LOCK)
        if calibration_revision(connection) != read.revision:
            # Another process was faster; what this one read is taken up by its next run.
            return None, read.rows
        connection.execute(update(LEARNING_STATE).values(learned=read.taken))
        return _written(connection, read, changed, gone), read.rows


def _written(connection: Connection, read: _Read, changed: Mapping[Key, Learned], gone: list[Key]) -> int | None:
    of_revision = select(CALIBRATION_REVISION).where(CALIBRATION_REVISION.c.id == read.revision)
    last = connection.execute(of_revision).one_or_none()
    if not changed and not gone and (last is None or last.catalog_revision >= read.catalog_revision):
        return None
    revision = read.revision + 1
    made_at = datetime.now(UTC)
    if last is not None:
        # A clock that was set back must not hide a revision from questions about then.
        made_at = max(made_at, last.made_at + timedelta(microseconds=1))
    columns = {"id": revision, "made_at": made_at, "catalog_revision": read.catalog_revision, "samples": read.rows}
    connection.execute(insert(CALIBRATION_REVISION).values(columns))
    _end(connection, gone, revision)
    if changed:
        connection.execute(insert(CALIBRATION_VALUE), [_row(value, revision) for value in changed.values()])
    return revision


def _stored(connection: Connection) -> dict[Key, Learned]:
    value = CALIBRATION_VALUE.c
    contents = connection.scalars(select(value.content).where(value.ended_revision.is_(None)))
    found = (learned_from(content) for content in contents)
    return {(value.quantity, value.key): value for value in found if value is not None}


def _end(connection: Connection, keys: list[Key], revision: int) -> None:
    value = CALIBRATION_VALUE.c
    for quantity, key in keys:
        connection.execute(
            update(CALIBRATION_VALUE)
            .where(value.quantity == quantity.value, value.key == key, value.ended_revision.is_(None))
            .values(ended_revision=revision)
        )


def _row(learned: Learned, revision: int) -> dict[str, Any]:
    return {
        "quantity": learned.quantity.value,
        "key": learned.key,
        "revision": revision,
        "ended_revision": None,
        "usable": learned.usable,
        "gpu": learned.scope.get("gpu"),
        "engine": learned.scope.get("engine"),
        "rung": learned.rung,
        "content": written(learned),
    }


def _differs(old: Learned | None, new: Learned) -> bool:
    """Whether a value has changed by more than means nothing: history must not grow with every row."""
    if old is None or (old.usable, old.rung, old.seen) != (new.usable, new.rung, new.seen):
        return True
    moved = max(abs(getattr(old, name) - getattr(new, name)) for name in ("estimate", "low", "high"))
    counts = ((old.measurements, new.measurements), (old.probes, new.probes))
    return (
        moved > _PART * new.quantity.resolution
        or any(abs(before - after) > _FEW * before for before, after in counts)
        or abs(new.newest - old.newest) >= _OLD
    )


def read_samples(connection: Connection) -> list[Sample]:
    """Every sample, those of one probe and cell as one: a large fleet has to fit the memory of a small process."""
    table = LEARNING_SAMPLE.c
    asked = select(table.probe_id, table.cell, table.measured_at, table.content)
    asked = asked.order_by(table.probe_id, table.cell, table.measured_at, table.seq)
    rows = connection.execute(asked, execution_options={"yield_per": 1000})
    scopes: dict[str, Scope] = {}
    return [
        merged([_read(str(probe), at, json.loads(content), scopes, cell) for _, _, at, content in together])
        for (probe, cell), together in groupby(rows, key=lambda row: (row[0], row[1]))
    ]


def _read(probe: str, at: datetime, content: dict[str, Any], scopes: dict[str, Scope], cell: str) -> Sample:
    told = {Quantity(name): Observation(*pair) for name, pair in content["told"].items() if name in _KNOWN}
    scope = scopes.setdefault(cell, Scope(**content["scope"]))
    return Sample(probe, scope, at, told)


_KNOWN: Final = frozenset(quantity.value for quantity in Quantity)
