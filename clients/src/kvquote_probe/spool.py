"""The local spool: every result is on the disk before anything is sent, and stays until the service answers for it.

It is one SQLite file, because that was measured to be the better of the two ways (ext4, 100,000 rows of 0.5 KB). A row
in a file of its own, written, flushed, renamed and its folder flushed, takes 5.1 ms; a committed row here 0.9 ms. To
list them and take 5,000 in batches takes 1.8 s from files and 0.5 s from here. SQLite's own journal also answers what a
crash in the middle of a write leaves. The journal is a rollback journal and no write-ahead log: home folders of
clusters are network folders, on which processes of different machines cannot share the latter's index.

What a row goes through: `waiting`, then gone with its verdict under `answers`; or, where the service refuses it,
`aside` with the reason. No row is deleted without an answer.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

from kvquote_probe.readings import Reading
from kvquote_probe.rows import encoded, make_row, rfc3339
from kvquote_probe.spool_file import Recovery, SpoolBusyError, SpoolError, explained, flush_folder, opened

if TYPE_CHECKING:
    from typing_extensions import Self

BATCH_ROWS = 1000
BATCH_BYTES = 8 << 20
"""Below the 10 MiB that the service takes, its envelope and longer escapes included."""

MOST_ANSWERS = 100_000
"""Answers that are remembered; the totals count all that ever came."""

UNUSED_PAGES = 2048
"""Of 4 KiB; fewer are kept for what comes next."""

REFUSED = frozenset({"rejected", "conflict"})
"""Verdicts of rows that are set aside."""

_PROBE_ID, _LOCK = "probe-id", "upload.lock"


class Kept(NamedTuple):
    """A row as it is kept: its place, its id and its text."""

    place: int
    id: str
    text: str


class Answered(NamedTuple):
    """What the service said of a row."""

    row: Kept
    verdict: str
    detail: str | None = None

    def without_text(self) -> Answered:
        """The same, to be held in numbers."""
        return self._replace(row=self.row._replace(text=""))


class Aside(NamedTuple):
    """A row that was refused, why and when."""

    id: str
    text: str
    verdict: str
    detail: str | None
    answered_at: str


class Counts(NamedTuple):
    """Rows in the spool, and all answers that ever came by verdict."""

    waiting: int
    aside: int
    answered: Mapping[str, int]


def default_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Where the spool lies if nobody chose: below XDG_STATE_HOME, or ~/.local/state.

    Raises:
        SpoolError: there is neither that variable nor a home folder.
    """
    state = Path(environment.get("XDG_STATE_HOME", ""))
    if state.is_absolute():
        return state / "kvquote"
    try:
        return Path.home() / ".local" / "state" / "kvquote"
    except RuntimeError as error:
        raise SpoolError("There is no home folder to keep results in: choose one with --spool.") from error


class Spool:
    """Rows of one probe in one folder. Several processes may add to it; one at a time uploads.

    `recovery` says what was saved where the file turned out to be damaged; the damaged one stays beside it. Every
    method raises SpoolError, in a sentence for a person, where the disk is full, the folder cannot be written or the
    file breaks.
    """

    def __init__(self, folder: Path) -> None:
        """Open the spool in `folder`, made if need be."""
        self.folder = folder
        with explained(folder):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.probe_id = _probe_id(folder)
            self._connection, self.recovery = opened(folder)

    recovery: Recovery | None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def keep(self, reading: Reading) -> dict[str, Any]:
        """The row of a reading taken now; on the disk when this returns."""
        row = make_row(reading, self.probe_id)
        self.add([row])
        return row

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """All of these rows, on the disk when this returns, or none of them."""
        texts = ((row["id"], encoded(row)) for row in rows)
        with self._writing() as connection:
            connection.executemany("INSERT INTO waiting (id, text) VALUES (?, ?)", texts)

    def batch(self, most_rows: int = BATCH_ROWS, most_bytes: int = BATCH_BYTES, after: int = 0) -> list[Kept]:
        """The oldest rows that wait after a place: at least one if there is any, at most so many rows and bytes."""
        rows: list[Kept] = []
        size = 0
        query = "SELECT seq, id, text FROM waiting WHERE seq > ? ORDER BY seq LIMIT ?"
        with explained(self.folder), closing(self._connection.execute(query, (after, most_rows))) as found:
            for place, row_id, text in found:
                size += len(text.encode()) + 1
                if rows and size > most_bytes:
                    break
                rows.append(Kept(place, row_id, text))
        return rows

    def settle(self, answers: Iterable[Answered]) -> None:
        """Record what was answered for rows, all of it or, where this fails, nothing."""
        now = rfc3339(datetime.now(timezone.utc))
        answers = list(answers)
        with self._writing() as connection:
            connection.executemany(
                "INSERT OR REPLACE INTO answers (seq, id, verdict, detail, answered_at) VALUES (?, ?, ?, ?, ?)",
                ((one.row.place, one.row.id, one.verdict, one.detail, now) for one in answers),
            )
            connection.executemany(
                "INSERT OR REPLACE INTO aside (seq, id, text, verdict, detail, answered_at) VALUES (?, ?, ?, ?, ?, ?)",
                ((*one.row, one.verdict, one.detail, now) for one in answers if one.verdict in REFUSED),
            )
            connection.executemany(
                "INSERT INTO totals (verdict, rows) VALUES (?, 1) ON CONFLICT DO UPDATE SET rows = rows + 1",
                ((one.verdict,) for one in answers),
            )
            connection.executemany("DELETE FROM waiting WHERE seq = ?", ((one.row.place,) for one in answers))

    def tidy(self) -> None:
        """Forget the oldest answers beyond MOST_ANSWERS, and give space back where much is unused."""
        with explained(self.folder):
            oldest = "SELECT seq FROM answers ORDER BY seq DESC LIMIT 1 OFFSET ?"
            last = self._connection.execute(oldest, (MOST_ANSWERS,)).fetchone()
            (unused,) = self._connection.execute("PRAGMA freelist_count").fetchone()
        if last is not None:
            with self._writing() as connection:
                connection.execute("DELETE FROM answers WHERE seq <= ?", last)
        if unused < UNUSED_PAGES:
            return
        with explained(self.folder):
            # As a script, because execute() takes only its first step and so frees one page.
            self._connection.executescript("PRAGMA incremental_vacuum")

    def counts(self) -> Counts:
        """How much there is of what."""
        with explained(self.folder):
            (waiting,) = self._connection.execute("SELECT count(*) FROM waiting").fetchone()
            (aside,) = self._connection.execute("SELECT count(*) FROM aside").fetchone()
            return Counts(waiting, aside, dict(self._connection.execute("SELECT verdict, rows FROM totals ORDER BY 1")))

    def aside(self, most: int = -1) -> Iterator[Aside]:
        """The rows that were refused, the oldest first; all of them unless `most` are wanted."""
        query = "SELECT id, text, verdict, detail, answered_at FROM aside ORDER BY seq LIMIT ?"
        with explained(self.folder), closing(self._connection.execute(query, (most,))) as found:
            yield from map(Aside._make, found)

    def send_again(self) -> int:
        """Let the refused rows wait once more, as after an upgrade of the service; how many there were."""
        with self._writing() as connection:
            moved = connection.execute(
                "INSERT INTO waiting (id, text) SELECT id, text FROM aside ORDER BY seq"
            ).rowcount
            connection.execute("DELETE FROM aside")
        return max(0, moved)

    @contextmanager
    def uploading(self) -> Iterator[None]:
        """Hold the right to upload; raises SpoolBusyError where another process has it."""
        with explained(self.folder):
            lock = (self.folder / _LOCK).open("ab")
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SpoolBusyError(f"Another process is uploading what {self.folder} holds.") from None
            yield

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk once this block is left, and never happened where an error leaves it."""
        with explained(self.folder):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
                self._connection.execute("COMMIT")
            except BaseException:
                # A full disk may have ended the transaction already.
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise


def _probe_id(folder: Path) -> str:
    """The id that was made when the folder was first used: kept beside the file, so that it outlives a damaged one."""
    path = folder / _PROBE_ID
    if not path.exists():
        _first_wins(folder, path)
    try:
        return str(UUID(path.read_text(encoding="ascii").strip()))
    except ValueError:
        raise SpoolError(f"{path} holds no probe's id: move it away to begin as a new probe.") from None


def _first_wins(folder: Path, path: Path) -> None:
    """Write a new id; of several processes that do this at once the first one's stays."""
    draft = folder / f".{_PROBE_ID}-{uuid4().hex}"
    try:
        with draft.open("x", encoding="ascii") as file:
            file.write(f"{uuid4()}\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(draft, path)
        flush_folder(folder)
    finally:
        draft.unlink(missing_ok=True)


def row_of(text: str) -> dict[str, Any]:
    """The row in a kept text."""
    row: dict[str, Any] = json.loads(text)
    return row
