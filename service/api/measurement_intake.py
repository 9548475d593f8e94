"""From the rows of an upload to their verdicts: read, judged by the catalog, stored once, and told in bounded words."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from flask import current_app

from service.api import limits
from service.api.problems import ProblemError
from service.api.quick_json import write_sorted
from service.api.schemas.measurement_rows import Seen, oldest_kept, read_row
from service.api.services import services, snapshot
from service.api.uploads import BrokenLine, UploadBody
from service.domain.errors import Fault
from service.domain.measurement import Judgement, Lookups, Verdict, judge
from service.storage.measurement_writes import Known
from service.storage.measurements import MeasurementStore, name_of, used_lately
from service.storage.snapshot import Snapshot
from service.storage.tokens import Token
from service.storage.uploads import (
    Budget,
    NewRow,
    OverBudgetError,
    StaleCatalogError,
    Upload,
    digest_of,
    new_row,
    now,
)

_EXTENSION = "kvquote-measurements"
_TRIES = 4


@dataclass(slots=True)
class Outcome:
    """One row on its way: its content with its canonical text, or its faults; then its verdict."""

    id: str | None
    content: dict[str, Any] | None
    text: str
    faults: Sequence[Fault]
    verdict: Verdict = Verdict.REJECTED
    detail: str | None = None


def store() -> MeasurementStore:
    """The store of the application that answers this request."""
    having = services()
    found: MeasurementStore | None = current_app.extensions.get(_EXTENSION)
    # setdefault decides between two threads that come first at once.
    return found or current_app.extensions.setdefault(_EXTENSION, MeasurementStore(having.engine))


def take_in(token: Token, sent: UploadBody) -> list[Outcome]:
    """Store what is new of an upload, and say what became of each row, in order.

    Raises ProblemError (429) where the token has sent too much, CatalogUnavailable without a catalog, and the
    database's errors where it is away; then nothing was stored.
    """
    received_at = now()
    outcomes = _read(sent.rows, oldest_kept(services().settings.measurements_kept_days, received_at))
    first = _first_of_each(outcomes)
    ids = {row_id: UUID(row_id) for row_id in first}
    known = _by_text(store().known([*ids.values()]))
    new = {ids[row_id]: row for row_id, row in first.items() if row_id not in known}
    late, judged = _stored(token, sent, received_at, new)
    # Late are those that somebody else stored between the look and the write.
    _tell_apart(outcomes, first, known | late, judged)
    return outcomes


def _stored(
    token: Token, sent: UploadBody, received_at: datetime, rows: Mapping[UUID, Outcome]
) -> tuple[dict[str, bytes], dict[str, Judgement]]:
    """Judge and store; the digests of rows that were there before, and what the others were taken for."""
    for tried in range(_TRIES):
        catalog = snapshot()
        upload, judged = _judged(token, sent, received_at, rows, catalog)
        try:
            return _by_text(store().add(replace(upload, charge=not tried), catalog)), judged
        except StaleCatalogError:
            # Another worker has seen a newer catalog already.
            services().keeper.refresh()
        except OverBudgetError as over:
            raise _over_budget(over.seconds) from None
    raise ProblemError("database-unavailable", "The catalog changes faster than this upload can be judged.")


def _by_text(known: Known) -> dict[str, bytes]:
    return {str(each): digest for each, digest in known.items()}


def _over_budget(seconds: int) -> ProblemError:
    having = services().settings
    detail = (
        f"A token may send {having.upload_rows_per_minute:,} rows and {having.upload_bytes_per_minute:,} bytes "
        f"a minute; nothing was stored. Send it again in {seconds} s."
    )
    return ProblemError("upload-budget", detail, headers=[("Retry-After", str(seconds))])


def _read(rows: Iterable[Any], oldest: datetime) -> list[Outcome]:
    outcomes, bad = [], 0
    seen = Seen()
    for given in rows:
        listed = limits.ROW_FAULTS if bad < limits.BAD_ROWS_LISTED else 1
        outcome = _read_one(given, listed, oldest, seen)
        bad += outcome.content is None
        outcomes.append(outcome)
    return outcomes


def _read_one(
    given: Any,  # noqa: ANN401  # any JSON value
    most_faults: int,
    oldest: datetime,
    seen: Seen,
) -> Outcome:
    if isinstance(given, BrokenLine):
        return Outcome(None, None, "", [Fault("", given.detail)])
    read = read_row(given, most_faults, oldest, seen)
    if read.content is None:
        return Outcome(read.id, None, "", read.faults)
    text = write_sorted(read.content)
    if len(text) > limits.ROW_BYTES:
        return Outcome(read.id, None, "", [Fault("", f"A row may have at most {limits.ROW_BYTES:,} bytes.")])
    return Outcome(read.id, read.content, text, ())


def _first_of_each(outcomes: list[Outcome]) -> dict[str, Outcome]:
    """The first valid row of each id: what is stored where there is none yet."""
    first: dict[str, Outcome] = {}
    for outcome in outcomes:
        if outcome.content is not None:
            first.setdefault(outcome.content["id"], outcome)
    return first


def _judged(
    token: Token, sent: UploadBody, received_at: datetime, rows: Mapping[UUID, Outcome], catalog: Snapshot
) -> tuple[Upload, dict[str, Judgement]]:
    lookups = Lookups(catalog, catalog.distrust)
    new, by_id = [], {}
    for row_id, row in rows.items():
        judged = by_id[row.id or ""] = judge(row.content or {}, received_at, lookups, token.id)
        new.append(new_row(row.content or {}, row.text, judged, row_id))
    return _upload(token, sent, received_at, new, catalog), by_id


_CONFLICT = "Another row has this id and says something else; the first one stays."


def _tell_apart(
    outcomes: list[Outcome], first: dict[str, Outcome], kept: dict[str, bytes], judged: dict[str, Judgement]
) -> None:
    """Give each valid row its verdict: what is new was judged, what was there before is the same or is not."""
    for outcome in outcomes:
        if outcome.content is None:
            continue
        row_id = outcome.id or ""
        if outcome is first[row_id] and row_id not in kept:
            outcome.verdict, outcome.detail = judged[row_id].verdict, judged[row_id].detail
        elif digest_of(outcome.text) == (kept.get(row_id) or digest_of(first[row_id].text)):
            outcome.verdict = Verdict.DUPLICATE
        else:
            outcome.verdict, outcome.detail = Verdict.CONFLICT, _CONFLICT


def _upload(token: Token, sent: UploadBody, received_at: datetime, rows: list[NewRow], catalog: Snapshot) -> Upload:
    settings = services().settings
    names = {("gpu", row.gpu_name) for row in rows if row.gpu_name is not None}
    names |= {("model", row.model_name) for row in rows if row.model_name is not None}
    return Upload(
        token_id=token.id,
        note_use=not used_lately(token, received_at),
        received_at=received_at,
        clock_skew_seconds=_skew(sent.sent_at, received_at),
        catalog_revision=catalog.revision,
        trust_revision=catalog.distrust.revision,
        rows=rows,
        names=[name_of(kind, name, catalog) for kind, name in sorted(store().unnamed(names))],
        rows_sent=len(sent.rows),
        bytes_sent=sent.size,
        budget=Budget(settings.upload_rows_per_minute, settings.upload_bytes_per_minute),
    )


def _skew(sent_at: str | None, received_at: datetime) -> float | None:
    return None if sent_at is None else (datetime.fromisoformat(sent_at) - received_at).total_seconds()


def told(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """What is answered of each row; details and errors for the first rows that have any, cut to what one line holds."""
    answers, listed = [], 0
    for outcome in outcomes:
        shown = listed < limits.BAD_ROWS_LISTED
        answers.append(tell(outcome) if shown else tell_shortly(outcome))
        listed += bool(outcome.faults or outcome.detail)
    return answers


def tell(outcome: Outcome) -> dict[str, Any]:
    """One row's answer in full."""
    detail = outcome.detail or (outcome.faults[0].detail if outcome.faults else None)
    errors = [{"pointer": _cut(f.pointer), "detail": _cut(f.detail)} for f in outcome.faults[: limits.ROW_FAULTS]]
    return {
        "id": outcome.id,
        "verdict": outcome.verdict.value,
        "detail": None if detail is None else _cut(detail),
        "errors": errors,
    }


def tell_shortly(outcome: Outcome) -> dict[str, Any]:
    """One row's answer without reasons."""
    return {"id": outcome.id, "verdict": outcome.verdict.value, "detail": None, "errors": []}


def _cut(text: str) -> str:
    most = limits.ROW_TEXT_CHARACTERS
    if not text.isascii():
        # Half of a surrogate pair, repeated from what is refused, would make the whole answer unreadable for many.
        text = text.encode(errors="replace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"
