"""What an upload is made of on its way into the database, and what becomes of it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, Final, NamedTuple
from uuid import UUID

from service.domain.measurement import Judgement, gpu_name, measured_at, model_name
from service.domain.row_commands import command_of
from service.storage.names import fold

UNHEARD: Final = fold("(command)")
"""What stands for the model of commands that are not understood: any change of the catalog may change that."""

_LONGEST_NAME: Final = 200
_VERDICTS: Final = ("accepted", "unmatched", "quarantined")
_MINUTE: Final = 60


class StaleCatalogError(Exception):
    """Rows were judged by an older catalog, or older decisions on senders, than stored ones: judge them again."""


class OverBudgetError(Exception):
    """A token sent more than it may in a minute; `seconds` until it may send again."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"The token may send again in {seconds} s.")
        self.seconds = seconds


class NewRow(NamedTuple):
    """A row as it is stored; times are UTC, names folded."""

    id: UUID
    probe_id: UUID
    kind: str
    measured_at: datetime
    gpu_name: str | None
    model_name: str | None
    engine: str | None
    verdict: str
    detail: str | None
    digest: bytes
    content: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What a token may send in a minute."""

    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Upload:
    """Rows of one request, each id once, judged by the catalog of `catalog_revision` and by who was trusted then.

    `rows_sent` and `bytes_sent` count everything that came, also what is not stored, and `charge` says whether they are
    still to be taken from the token's budget. `names` are the names that the rows use and where they lead.
    """

    token_id: str
    note_use: bool
    received_at: datetime
    clock_skew_seconds: float | None
    catalog_revision: int
    trust_revision: int
    rows: Sequence[NewRow]
    names: Sequence[Name]
    rows_sent: int
    bytes_sent: int
    budget: Budget
    charge: bool = True

    @property
    def minute(self) -> int:
        """Minutes from 1970 to its arrival."""
        return int(self.received_at.timestamp()) // _MINUTE

    def check(self, rows_sent: int, bytes_sent: int) -> None:
        """Raise OverBudgetError where these, this upload included, are more than the token may send in a minute."""
        over = rows_sent > self.budget.rows or bytes_sent > self.budget.bytes
        # An upload that alone is more than a minute's budget would never pass.
        if over and (rows_sent > self.rows_sent or bytes_sent > self.bytes_sent):
            raise OverBudgetError(_MINUTE - int(self.received_at.timestamp()) % _MINUTE)


class Name(NamedTuple):
    """A folded name of a GPU or a model, and where it leads; None where nothing answers to it."""

    kind: str
    name: str
    entry_id: str | None
    entry_revision: int | None


class ProbeCount(NamedTuple):
    """What one upload adds to a probe: its newest measurement, and rows by verdict."""

    probe_id: UUID
    last_measured_at: datetime
    accepted: int
    unmatched: int
    quarantined: int


def new_row(content: dict[str, Any], text: str, judged: Judgement, row_id: UUID | None = None) -> NewRow:
    """A row to store; `text` is the canonical JSON of its content, `row_id` its id where somebody has it at hand."""
    engine = (content.get("software") or {}).get("engine") or (content.get("setup") or {}).get("engine")
    return NewRow(
        row_id or UUID(content["id"]),
        _probe(content["probe_id"]),
        content["kind"],
        measured_at(content),
        folded(gpu_name(content)),
        folded(_model_name(content, judged)),
        folded(engine),
        judged.verdict.value,
        judged.detail,
        digest_of(text),
        text,
    )


# Making a UUID costs as much as judging a row, and one probe sends many.
_probe = lru_cache(maxsize=1024)(UUID)


def _model_name(content: dict[str, Any], judged: Judgement) -> str | None:
    """What a row's model is found by: the name that it gives, or what its command was understood to name."""
    named = model_name(content)
    if named is None and command_of(content) is not None:
        return judged.model_id or UNHEARD
    return named


def digest_of(text: str) -> bytes:
    """What tells a repeat of a row from another one with its id."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def folded(name: str | None) -> str | None:
    """A name as rows are found by it."""
    return None if name is None else fold(name)[:_LONGEST_NAME]


def probe_counts(rows: Iterable[NewRow]) -> list[ProbeCount]:
    """What rows add to their probes, in the order of the probes' ids: the order in which they are locked."""
    by_probe: dict[int, list[NewRow]] = {}
    for row in rows:
        by_probe.setdefault(row.probe_id.int, []).append(row)
    return [_probe_count(by_probe[probe]) for probe in sorted(by_probe)]


def _probe_count(rows: Sequence[NewRow]) -> ProbeCount:
    counts = Counter(row.verdict for row in rows)
    newest = max(row.measured_at for row in rows)
    return ProbeCount(rows[0].probe_id, newest, *(counts[verdict] for verdict in _VERDICTS))


def now() -> datetime:
    """The time of arrival."""
    return datetime.now(UTC)
