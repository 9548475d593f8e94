"""Whether there is something to learn: asked by every worker now and then, so without anything that learning needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.learning import RULES
from service.storage.database import reading

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.storage.snapshot import Snapshot

# As text, for what every worker asks: see `newest_revisions`.
_WAITING: Final = (
    "SELECT (SELECT max(seq) FROM measurement), (SELECT min(catalog_revision) FROM learning_sample),"
    " (SELECT min(seq) FROM learning_queue), (SELECT min(id) FROM trust_decision WHERE done_seq < last_seq)"
)
LEARNING_STATE_NOW: Final = "SELECT seq, taken, learned, rules FROM learning_state WHERE id = 1"
"""How far learning came, with the columns `seq`, `taken`, `learned` and `rules`; no row before the first time."""


def has_news(database: Engine, snapshot: Snapshot) -> bool:
    """Whether a run would find something to do: looked up by keys, however many rows there are."""
    with reading(database) as connection:
        newest, oldest, queued, unsettled = connection.exec_driver_sql(_WAITING).one()
        state = connection.exec_driver_sql(LEARNING_STATE_NOW).first()
    return (
        (newest or 0) > (0 if state is None else state.seq)
        or (state is not None and (state.taken != state.learned or state.rules != RULES))
        or (oldest is not None and oldest < snapshot.compared_revision())
        or queued is not None
        or unsettled is not None
    )
