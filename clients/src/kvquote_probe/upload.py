"""Uploading the spool: the same rows under the same ids, again and again, until the service has answered for each.

A row leaves the spool only for a verdict that names it. Whatever else happens (a reset, half a reply, a proxy's page, a
reply for other rows) says nothing about what was stored, so the batch is sent again; the service knows each row by its
id. Retries are counted here and not in the transport: a probe waits as long as the service asks, not 20 s.
"""

from __future__ import annotations

import gzip
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum, unique
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol

from kvquote_client import BadAnswer, InvalidInput, NotAllowed, NotFound, Refused, Reply, Unavailable, Unreachable
from kvquote_probe.commands import Say
from kvquote_probe.rows import rfc3339
from kvquote_probe.spool import BATCH_ROWS, REFUSED, Answered, Kept, Spool

PATH = "/measurements"
RECORDED_ROWS = 5000
"""So many answers are recorded at once."""

MOST_TOLD = 20
"""Refused rows that are told of one by one while it runs; `kvquote-probe status` shows all."""

EXPLAINED_ROWS = 50
"""So many refused rows of a reply have their reasons told; the others are asked about again, so many at a time."""

_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 1.0, 60.0
_DETAIL_CHARACTERS = 1000
# Level 1 takes a third of the time of the usual level and a fifth more bytes.
_GZIP_LEVEL = 1
_STORED = frozenset({"accepted", "unmatched", "quarantined", "duplicate"})
# What the service says of a body as a whole; which row is to blame, halving finds out.
_OF_THE_BODY = frozenset({400, 413, 414, 422, 431})
_LATER = frozenset({408, 425})
# One row after the other refused as a body, and none answered: that is not about the rows.
_MOST_LONE = 20


class Exchange(Protocol):
    """What sends a request once: `kvquote_client.Transport` made with `retries=0`."""

    def request(self, method: str, path: str, *, data: bytes, headers: Mapping[str, str], repeat: bool) -> Reply:
        """The answer below 400, else an error of `kvquote_client`."""
        ...


class Timing(NamedTuple):
    """What time it is, in seconds, and how to let some pass."""

    clock: Callable[[], float]
    sleep: Callable[[float], None]


@unique
class End(Enum):
    """How an upload ended."""

    DONE = "done"
    LATER = "later"
    REFUSED = "refused"


@dataclass
class Report:
    """What an upload did: rows by verdict, how it ended, and why where that is not the end of the spool."""

    counts: Counter[str] = field(default_factory=Counter)
    end: End = End.DONE
    why: str | None = None

    def ended(self, end: End, why: str | None) -> Report:
        """The same with its end."""
        self.end, self.why = end, why
        return self

    @property
    def set_aside(self) -> int:
        """Rows that the service refused."""
        return sum(self.counts[verdict] for verdict in REFUSED)


class _RepeatError(Exception):
    """The batch has to be sent again, after the seconds that the service named or, for None, after a while."""

    def __init__(self, why: str, seconds: float | None = None) -> None:
        super().__init__(why)
        self.seconds = seconds


class _SplitError(Exception):
    """The body was refused as a whole."""


class _StopError(Exception):
    """Nothing will change until a person does something."""


class _Answers:
    """Answers that came and are not recorded yet; several batches share a flush to the disk.

    Where they are lost, as by a kill, their rows are sent again and are duplicates: it costs time and nothing else.
    """

    def __init__(self, spool: Spool) -> None:
        self._spool = spool
        self._noted: list[Answered] = []
        self.after = 0
        """The place of the last row that was answered."""

    def note(self, answers: Sequence[Answered]) -> bool:
        """Remember these, and record all there are once that is worth it: then True. Refused rows keep their texts."""
        self._noted += [one if one.verdict in REFUSED else one.without_text() for one in answers]
        self.after = max([self.after, *(one.row.place for one in answers)])
        if len(self._noted) < RECORDED_ROWS:
            return False
        self.record()
        return True

    def record(self) -> None:
        """Have the spool let go of the rows. Raises SpoolError."""
        if self._noted:
            self._spool.settle(self._noted)
            self._noted = []


class Uploader:
    """Sends what waits in a spool. `patience_seconds` is how long it goes on without a single answer.

    The caller holds `spool.uploading()`. Stopping it anywhere, by a signal or for good, loses nothing.
    """

    def __init__(
        self,
        spool: Spool,
        exchange: Exchange,
        say: Say,
        patience_seconds: float,
        timing: Timing | None = None,
    ) -> None:
        self._spool = spool
        self._exchange = exchange
        self._say = say
        self._patience = patience_seconds
        self._clock, self._sleep = timing or Timing(time.monotonic, time.sleep)
        self._answers = _Answers(spool)
        self._most_rows = BATCH_ROWS
        self._gzip = True
        self._lone = self._told = 0

    def run(self) -> Report:
        """Send until nothing waits, patience is over or a person is needed. Raises SpoolError."""
        try:
            return self._run(Report())
        finally:
            self._answers.record()
            self._spool.tidy()

    def _run(self, report: Report) -> Report:
        failures, answered_at = 0, self._clock()
        while batch := self._spool.batch(self._most_rows, after=self._answers.after):
            try:
                answers = self._answered(batch)
            except _SplitError as error:
                answers = self._split(batch, str(error))
                if self._lone > _MOST_LONE:
                    return report.ended(End.REFUSED, f"nothing that is sent there is taken: {error}")
            except _StopError as error:
                return report.ended(End.REFUSED, str(error))
            except _RepeatError as error:
                # At least what the service asks for; one that asks for nothing is not asked without a pause.
                wait = max(error.seconds or 0.0, _wait_seconds(failures))
                failures += 1
                if self._clock() + wait - answered_at > self._patience:
                    return report.ended(End.LATER, str(error))
                self._say(f"{error}; trying again in {wait:.0f} s")
                self._answers.record()
                self._sleep(wait)
                continue
            failures, answered_at = 0, self._clock()
            report.counts.update(answer.verdict for answer in answers)
            self._tell_refused(answers)
            if self._answers.note(answers):
                self._say(f"{report.counts.total():,} rows are answered")
        return report.ended(End.DONE, None)

    def _answered(self, batch: Sequence[Kept]) -> list[Answered]:
        answers = self._explained(self._sent(batch))
        # A body that was too large says something of these rows, not of all that follow.
        self._most_rows = min(BATCH_ROWS, self._most_rows * 2)
        self._lone = 0
        return answers

    def _split(self, batch: Sequence[Kept], why: str) -> list[Answered]:
        """Send less next time; a row that is refused on its own is set aside."""
        if len(batch) > 1:
            self._most_rows = max(1, len(batch) // 2)
            return []
        self._lone += 1
        return [] if self._lone > _MOST_LONE else [Answered(batch[0], "rejected", why[:_DETAIL_CHARACTERS])]

    def _tell_refused(self, answers: Iterable[Answered]) -> None:
        for answer in answers:
            self._told += answer.verdict in REFUSED
            if answer.verdict in REFUSED and self._told <= MOST_TOLD:
                self._say(f"{answer.row.id} is {answer.verdict} and set aside: {answer.detail or 'no reason is told'}")

    def _explained(self, answers: list[Answered]) -> list[Answered]:
        """Ask again about refused rows whose reason the service left out, few at a time: it stores none of them."""
        silent = [place for place, one in enumerate(answers) if one.verdict in REFUSED and one.detail is None]
        for start in range(0, len(silent), EXPLAINED_ROWS):
            places = silent[start : start + EXPLAINED_ROWS]
            for place, told in zip(places, self._sent([answers[place].row for place in places]), strict=True):
                answers[place] = told
        return answers

    def _sent(self, batch: Sequence[Kept]) -> list[Answered]:
        """One exchange about these rows, an answer for each of them."""
        try:
            reply = self._exchange.request("POST", PATH, **self._request(batch), repeat=True)
        except (Unreachable, BadAnswer) as error:
            raise _RepeatError(str(error)) from error
        except Unavailable as error:
            raise _RepeatError(str(error), error.retry_after_seconds) from error
        except (NotAllowed, NotFound, InvalidInput) as error:
            raise _StopError(str(error)) from error
        except Refused as error:
            return self._refused(error, batch)
        return _read(reply, batch)

    def _request(self, batch: Sequence[Kept]) -> dict[str, Any]:
        body = body_of(batch)
        headers = {"Content-Type": "application/json"}
        if self._gzip:
            body = gzip.compress(body, _GZIP_LEVEL, mtime=0)
            headers["Content-Encoding"] = "gzip"
        return {"data": body, "headers": headers}

    def _refused(self, error: Refused, batch: Sequence[Kept]) -> list[Answered]:
        if error.status in _OF_THE_BODY and (error.problem or error.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
            raise _SplitError(str(error)) from error
        if error.status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE and self._gzip:
            # Something in between does not take gzip.
            self._gzip = False
            return self._sent(batch)
        if error.status in _LATER:
            raise _RepeatError(str(error), error.retry_after_seconds) from error
        raise _StopError(str(error)) from error


def body_of(batch: Sequence[Kept]) -> bytes:
    """The rows in their envelope: their texts are what was kept, only `sent_at` is of this try."""
    sent_at = rfc3339(datetime.now(timezone.utc))
    return f'{{"sent_at":"{sent_at}","items":[{",".join(row.text for row in batch)}]}}'.encode()


def _wait_seconds(failures: int) -> float:
    """Doubling, and anywhere between half of it and all: a fleet that lost its service must not come back as one."""
    longest: float = min(_LONGEST_WAIT_SECONDS, _FIRST_WAIT_SECONDS * 2 ** min(failures, 16))
    return longest * (0.5 + random.random() / 2)  # noqa: S311 - spreads tries, hides nothing


def _read(reply: Reply, batch: Sequence[Kept]) -> list[Answered]:
    items = reply.body.get("items") if reply.status == HTTPStatus.OK and isinstance(reply.body, dict) else None
    if not isinstance(items, list) or len(items) != len(batch):
        raise _RepeatError(f"the service did not answer for {len(batch)} rows but with HTTP {reply.status}")
    return [_answered(item, row) for item, row in zip(items, batch, strict=True)]


def _answered(item: object, row: Kept) -> Answered:
    if not isinstance(item, dict) or not isinstance(item.get("verdict"), str):
        raise _RepeatError("the service answered without a verdict")
    told = item.get("id")
    # Null where the service cannot read the id of a row that it rejects.
    if told != row.id and not (told is None and item["verdict"] in REFUSED):
        raise _RepeatError("the service answered for other rows")
    verdict, detail = item["verdict"], _detail(item)
    if verdict in _STORED or verdict in REFUSED:
        return Answered(row, verdict, detail)
    return Answered(row, "rejected", f"the service says {verdict[:40]!r}, which this probe does not know")


def _detail(item: Mapping[str, Any]) -> str | None:
    said = [item["detail"]] if isinstance(item.get("detail"), str) else []
    errors = item.get("errors")
    for error in errors if isinstance(errors, list) else []:
        if isinstance(error, dict) and isinstance(error.get("detail"), str) and error["detail"] not in said:
            said.append(error["detail"])
    return "; ".join(said)[:_DETAIL_CHARACTERS] or None
