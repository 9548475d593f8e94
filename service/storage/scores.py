"""How quotes fared, as it is stored: the newest scores of each group, and what they sum up to."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Row, delete, insert, select, tuple_, update

from service.domain.accuracy import SCORED, Score, score, summed_up
from service.domain.calibration import Calibration
from service.domain.observations import Memo
from service.domain.robust import median
from service.storage.calibrations import calibration_revision_at, read_calibration
from service.storage.canonical import compact_json
from service.storage.filters import among
from service.storage.measurement_tables import ACCURACY_GROUP, ACCURACY_SCORE
from service.storage.snapshot import Snapshot

_logger: Final = logging.getLogger(__name__)

SCORES_KEPT: Final = 200
"""Of each group, the newest: what a drift shows in, and what may be kept for ever."""

GROUP_COLUMNS: Final = ("family", "gpu", "engine", "version", "figure")


def note_scores(connection: Connection, snapshot: Snapshot, rows: Sequence[Row[Any]]) -> None:
    """Score accepted rows by the catalog of now, and by what had been learned when each of them came."""
    rows = [row for row in rows if row.kind in SCORED]
    scored = set(
        connection.scalars(select(ACCURACY_SCORE.c.seq).where(ACCURACY_SCORE.c.seq.in_([row.seq for row in rows])))
    )
    known: dict[int, tuple[Snapshot, Memo]] = {}
    groups: dict[str, dict[str, str]] = {}
    stored: list[dict[str, Any]] = []
    for row in rows:
        if row.seq in scored:
            continue
        revision = calibration_revision_at(connection, row.received_at)
        if revision not in known:
            known[revision] = (snapshot.taught(_calibration(connection, snapshot, revision)), {})
        catalog, memo = known[revision]
        made = _made(row, catalog, memo)
        if made is not None:
            stored.append(_stored(row, made, snapshot.revision, catalog.calibration.revision))
            groups[_digest_of(made.group)] = {name: getattr(made, name) for name in GROUP_COLUMNS}
    if stored:
        connection.execute(insert(ACCURACY_SCORE), stored)
    for digest, names in sorted(groups.items()):
        _sum_up(connection, digest, names)


def _made(row: Row[Any], catalog: Snapshot, memo: Memo) -> Score | None:
    try:
        return score(json.loads(row.content), catalog, memo)
    except Exception as error:  # noqa: BLE001  # one row that nobody thought of must not end all learning
        _logger.warning("measurement %s cannot be scored (%s)", row.id, type(error).__name__)
        return None


def _calibration(connection: Connection, snapshot: Snapshot, revision: int) -> Calibration:
    at_hand = snapshot.calibration
    return at_hand if at_hand.revision == revision else read_calibration(connection, revision)


def _digest_of(group: str) -> str:
    return hashlib.blake2b(group.encode(), digest_size=16).hexdigest()


def _stored(row: Row[Any], made: Score, catalog_revision: int, revision: int) -> dict[str, Any]:
    return {
        "seq": row.seq,
        "group_key": _digest_of(made.group),
        "probe_id": row.probe_id,
        "token_id": row.token_id,
        "received_at": row.received_at,
        "error": made.error,
        "learned_error": made.learned_error,
        "inside": made.inside,
        "band": made.band,
        "catalog_revision": catalog_revision,
        "calibration_revision": revision,
    }


def forget_scores(connection: Connection, *conditions: ColumnElement[bool]) -> None:
    """Take scores out, of rows that are not believed any more, and sum up again what they were counted in."""
    digests = set(connection.scalars(select(ACCURACY_SCORE.c.group_key).where(*conditions).distinct()))
    if not digests:
        return
    connection.execute(delete(ACCURACY_SCORE).where(*conditions))
    for group in connection.execute(select(ACCURACY_GROUP)).all():
        names = [getattr(group, name) for name in GROUP_COLUMNS]
        digest = _digest_of("\0".join(names))
        if digest in digests:
            _sum_up(connection, digest, dict(zip(GROUP_COLUMNS, names, strict=True)))


def _sum_up(connection: Connection, digest: str, names: Mapping[str, str]) -> None:
    """Keep the newest scores of a group, and write down what they sum up to; nothing where there are none."""
    of_group = select(ACCURACY_SCORE).where(ACCURACY_SCORE.c.group_key == digest).order_by(ACCURACY_SCORE.c.seq.desc())
    found = connection.execute(of_group.limit(SCORES_KEPT + 1)).all()
    if len(found) > SCORES_KEPT:
        oldest = found[SCORES_KEPT - 1].seq
        connection.execute(
            delete(ACCURACY_SCORE).where(ACCURACY_SCORE.c.group_key == digest, ACCURACY_SCORE.c.seq < oldest)
        )
    kept = found[:SCORES_KEPT]
    group = [ACCURACY_GROUP.c[name] == word for name, word in names.items()]
    if not kept:
        connection.execute(delete(ACCURACY_GROUP).where(*group))
        return
    scores = [
        Score(**names, error=row.error, learned_error=row.learned_error, inside=row.inside, band=row.band)
        for row in kept
    ]
    content = compact_json({**summed_up(scores)._asdict(), "probes": len({row.probe_id for row in kept})})
    columns = {"newest_at": max(row.received_at for row in kept), "content": content}
    if not connection.execute(update(ACCURACY_GROUP).where(*group).values(columns)).rowcount:
        connection.execute(insert(ACCURACY_GROUP).values({**names, **columns}))


@dataclass(frozen=True, slots=True)
class GroupFilter:
    """What a page of groups is asked for; None asks for anything. `after` is where the last page ended."""

    families: Sequence[str] | None = None
    gpus: Sequence[str] | None = None
    engines: Sequence[str] | None = None
    versions: Sequence[str] | None = None
    after: tuple[str, ...] | None = None


def find_groups(connection: Connection, asked: GroupFilter, count: int) -> Sequence[Row[Any]]:
    """At most `count` groups in the order of their names."""
    group = ACCURACY_GROUP.c
    order = (group.family, group.gpu, group.engine, group.version, group.figure)
    conditions = among(
        (group.family, asked.families),
        (group.gpu, asked.gpus),
        (group.engine, asked.engines),
        (group.version, asked.versions),
    )
    if asked.after is not None:
        conditions.append(tuple_(*order) > asked.after)
    return connection.execute(select(ACCURACY_GROUP).where(*conditions).order_by(*order).limit(count)).all()


def by_engine(connection: Connection) -> list[tuple[str, int, int, float]]:
    """Of each engine: its groups, how many of them drift, and the median of their typical errors."""
    found: dict[str, list[dict[str, Any]]] = {}
    for engine, content in connection.execute(select(ACCURACY_GROUP.c.engine, ACCURACY_GROUP.c.content)):
        found.setdefault(engine, []).append(json.loads(content))
    return [
        (engine, len(groups), sum(g["drifting"] for g in groups), median([g["typical_error"] for g in groups]))
        for engine, groups in sorted(found.items())
    ]
