"""Whether there is something to learn: asked by every worker now and then, so without anything that learning needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.learning import RULES
from service.storage.database import look

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from service.storage.snapshot import Snapshot

_NEWS: Final = (
    "SELECT (SELECT max(seq) FROM measurement), (SELECT seq FROM learning_state WHERE id = 1),"
    " (SELECT rules FROM learning_state WHERE id = 1), (SELECT id FROM learning_state WHERE taken <> learned),"
    " (SELECT min(catalog_revision) FROM learning_sample), (SELECT min(seq) FROM learning_queue),"
    " (SELECT min(id) FROM trust_decision WHERE done_seq < last_seq)"
)


def has_news(database: Engine, snapshot: Snapshot) -> bool:
    """Whether a run would find something to do: looked up by keys, however many rows there are."""
    newest, passed, rules, unlearned, oldest, queued, unsettled = look(database, _NEWS)
    return (
        (newest or 0) > (passed or 0)
        or rules not in {None, RULES}
        or any(found is not None for found in (unlearned, queued, unsettled))
        or (oldest is not None and oldest < snapshot.compared_revision())
    )
