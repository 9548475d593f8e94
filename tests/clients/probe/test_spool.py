"""The spool: what it holds survives whatever happens to the process, the disk and the file."""

import json
import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from kvquote_probe.readings import Reading
from kvquote_probe.spool import Answered, Spool, default_folder
from kvquote_probe.spool_file import FILE, SpoolBusyError, SpoolDamagedError, SpoolError, SpoolFullError

READING = Reading("memory_bandwidth", {"bytes_per_second": 2.9e12, "access": "read"}, gpu={"name": "NVIDIA L4"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "state" / "kvquote"


@pytest.fixture
def spool(folder: Path) -> Iterator[Spool]:
    with Spool(folder) as spool:
        yield spool


def a_row(**more: object) -> dict[str, Any]:
    return {"id": str(uuid4()), "kind": "memory_bandwidth", "values": {"bytes_per_second": 1.0}, **more}


def ids(spool: Spool) -> list[str]:
    return [kept.id for kept in spool.batch(10_000)]


def test_it_keeps_a_reading_until_it_is_answered(spool: Spool) -> None:
    row = spool.keep(READING)

    (kept,) = spool.batch()
    assert json.loads(kept.text) == row
    assert row["probe_id"] == spool.probe_id
    spool.settle([Answered(kept, "accepted")])
    assert spool.batch() == []
    assert spool.counts().answered == {"accepted": 1}


def test_what_is_kept_is_there_for_the_next_process(folder: Path) -> None:
    with Spool(folder) as first:
        row = first.keep(READING)

    with Spool(folder) as second:
        assert ids(second) == [row["id"]]
        assert second.probe_id == first.probe_id
        assert second.recovery is None


def test_a_probe_has_one_random_id_however_many_start_at_once(folder: Path) -> None:
    script = "from kvquote_probe.spool import *; import sys, pathlib; print(Spool(pathlib.Path(sys.argv[1])).probe_id)"
    command = [sys.executable, "-c", script, str(folder)]
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]

    told = {process.communicate()[0].strip() for process in started}

    assert len(told) == 1
    assert UUID(told.pop()).version == 4
    assert sorted(path.name for path in folder.iterdir()) == ["probe-id", FILE, f"{FILE}-journal"]


def test_batches_are_bounded_by_rows_and_by_bytes(spool: Spool) -> None:
    rows = [a_row(note="x" * 1000) for _ in range(20)]
    spool.add(rows)

    assert [kept.id for kept in spool.batch(most_rows=7)] == [row["id"] for row in rows[:7]]
    assert len(spool.batch(most_bytes=5000)) == 4
    assert len(spool.batch(most_bytes=1)) == 1
    assert [kept.id for kept in spool.batch(after=spool.batch()[17].place)] == [row["id"] for row in rows[18:]]


def test_refused_rows_are_set_aside_with_the_reason_and_can_be_sent_again(spool: Spool) -> None:
    spool.add([a_row(), a_row(), a_row()])
    good, bad, other = spool.batch()

    spool.settle(
        [Answered(good, "duplicate"), Answered(bad, "rejected", "values: no"), Answered(other, "conflict", "its id")]
    )

    assert [(row.id, row.verdict, row.detail) for row in spool.aside()] == [
        (bad.id, "rejected", "values: no"),
        (other.id, "conflict", "its id"),
    ]
    assert spool.batch() == []
    assert spool.send_again() == 2
    assert [kept.text for kept in spool.batch()] == [bad.text, other.text]
    assert spool.counts()[:2] == (2, 0)


def test_a_row_that_json_has_no_word_for_leaves_none_of_its_fellows(spool: Spool) -> None:
    with pytest.raises(ValueError, match="JSON"):
        spool.add([a_row(), a_row(values={"bytes_per_second": float("nan")})])

    assert spool.batch() == []


def test_the_second_uploader_is_refused_and_the_next_one_is_not(folder: Path, spool: Spool) -> None:
    with Spool(folder) as other:
        with spool.uploading(), pytest.raises(SpoolBusyError, match="Another process"), other.uploading():
            pass
        with other.uploading():
            pass


def test_rows_can_be_added_while_another_process_uploads(folder: Path, spool: Spool) -> None:
    with spool.uploading(), Spool(folder) as other:
        row = other.keep(READING)

    assert ids(spool) == [row["id"]]


def test_a_full_disk_is_said_and_what_was_kept_stays(spool: Spool) -> None:
    row = spool.keep(READING)
    pages = spool._connection.execute("PRAGMA page_count").fetchone()[0]
    spool._connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(SpoolFullError, match="is full"):
        spool.add(a_row(note="x" * 4000) for _ in range(10))

    assert ids(spool) == [row["id"]]
    spool._connection.execute("PRAGMA max_page_count = 1000000")
    spool.keep(READING)
    assert len(spool.batch()) == 2


def test_a_file_that_may_not_grow_is_said_and_what_was_kept_stays(folder: Path) -> None:
    with Spool(folder) as spool:
        row = spool.keep(READING)
    size = (folder / FILE).stat().st_size
    script = f"""
import pathlib, resource, signal, sys
from kvquote_probe.spool import *
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
try:
    Spool(pathlib.Path(sys.argv[1])).add({{"id": str(n), "x": "y" * 5000}} for n in range(50))
except SpoolError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", script, str(folder)], capture_output=True, text=True, check=True)

    assert "Results cannot be kept" in said.stdout or "is full" in said.stdout
    with Spool(folder) as spool:
        assert ids(spool) == [row["id"]]


@pytest.mark.parametrize("after", ["BEGIN", "INSERT", "COMMIT"])
def test_a_process_killed_while_it_adds_leaves_all_or_nothing(folder: Path, after: str) -> None:
    """Killed as SQLite begins the statement that follows `after`, so that a journal is left behind."""
    with Spool(folder) as spool:
        before = spool.keep(READING)
    script = f"""
import os, pathlib, signal, sys
from kvquote_probe.spool import *
spool = Spool(pathlib.Path(sys.argv[1]))
spool._connection.execute("PRAGMA cache_size = 5")
seen = []
def kill(statement):
    if seen and {after!r} in seen[-1]:
        os.kill(os.getpid(), signal.SIGKILL)
    seen.append(statement)
spool._connection.set_trace_callback(kill)
spool.add({{"id": str(n), "x": "y" * 5000}} for n in range(50))
spool.batch()
"""
    killed = subprocess.run([sys.executable, "-c", script, str(folder)], check=False)

    assert killed.returncode == -9
    with Spool(folder) as spool:
        assert spool.recovery is None
        assert len(ids(spool)) == (51 if after == "COMMIT" else 1)
        assert ids(spool)[0] == before["id"]


def half(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\xa5" * 8192)


def nonsense(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)


@pytest.mark.parametrize("damage, saved", [(half, 50), (overwritten, 100), (nonsense, 0)])
def test_a_damaged_file_is_moved_aside_and_its_readable_rows_are_saved(
    folder: Path, damage: Callable[[Path], None], saved: int
) -> None:
    with Spool(folder) as spool:
        rows = [a_row(note="x" * 500) for _ in range(200)]
        spool.add(rows)
    damage(folder / FILE)

    with Spool(folder) as again:
        assert again.recovery is not None
        assert again.recovery.damaged.exists()
        assert again.recovery.rows == len(ids(again)) >= saved
        assert set(ids(again)) <= {row["id"] for row in rows}
        assert all(json.loads(kept.text)["note"] == "x" * 500 for kept in again.batch())
        assert again.probe_id == spool.probe_id
        again.keep(READING)
    with Spool(folder) as later:
        assert later.recovery is None


def test_an_empty_file_is_a_new_spool(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / FILE).touch()

    with Spool(folder) as spool:
        spool.keep(READING)
        assert spool.recovery is None


def test_damage_that_shows_while_it_is_used_is_said(folder: Path, spool: Spool) -> None:
    spool.add(a_row(note="x" * 5000) for _ in range(50))
    nonsense(folder / FILE)

    with pytest.raises(SpoolDamagedError, match="moves it aside"):
        spool.add([a_row()])


def test_the_database_of_another_program_is_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    with sqlite3.connect(folder / FILE) as foreign:
        foreign.execute("CREATE TABLE theirs (x)")
    foreign.close()
    before = (folder / FILE).read_bytes()

    with pytest.raises(SpoolError, match="another program"):
        Spool(folder)

    assert (folder / FILE).read_bytes() == before


def test_foreign_files_beside_it_are_left_alone(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "notes.txt").write_text("mine")

    with Spool(folder) as spool:
        spool.keep(READING)

    assert (folder / "notes.txt").read_text() == "mine"


def test_the_spool_of_a_newer_probe_is_refused(folder: Path) -> None:
    with Spool(folder) as spool:
        spool._connection.execute("PRAGMA user_version = 2")

    with pytest.raises(SpoolError, match="newer kvquote-probe"):
        Spool(folder)


def test_a_probe_id_that_is_none_is_said(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "probe-id").write_text("node-17")

    with pytest.raises(SpoolError, match="no probe's id"):
        Spool(folder)


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(SpoolError, match="--spool"):
        Spool(tmp_path / "file" / "below")


def test_only_the_owner_may_look_into_it(spool: Spool) -> None:
    assert spool.folder.stat().st_mode & 0o777 == 0o700


def test_it_lies_below_the_state_folder_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert default_folder({"XDG_STATE_HOME": "/var/lib/x"}) == Path("/var/lib/x/kvquote")
    assert default_folder({"XDG_STATE_HOME": "relative"}) == tmp_path / ".local/state/kvquote"
    assert default_folder({}) == tmp_path / ".local/state/kvquote"


def test_every_commit_is_flushed(spool: Spool) -> None:
    full = 2

    assert spool._connection.execute("PRAGMA synchronous").fetchone() == (full,)
    assert spool._connection.execute("PRAGMA journal_mode").fetchone() == ("truncate",)


def test_answers_are_forgotten_at_last_and_the_totals_are_not(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquote_probe.spool.MOST_ANSWERS", 3)
    spool.add(a_row() for _ in range(10))
    spool.settle([Answered(kept, "accepted") for kept in spool.batch()])

    spool.tidy()

    assert spool._connection.execute("SELECT count(*) FROM answers").fetchone() == (3,)
    assert spool.counts().answered == {"accepted": 10}


def test_an_emptied_spool_gives_its_space_back(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvquote_probe.spool.UNUSED_PAGES", 100)
    spool.add(a_row(note="x" * 1000) for _ in range(1000))
    grown = (spool.folder / FILE).stat().st_size
    spool.settle([Answered(kept, "accepted") for kept in spool.batch()])

    spool.tidy()

    assert (spool.folder / FILE).stat().st_size < grown / 4


def test_memory_does_not_grow_with_what_waits(spool: Spool) -> None:
    spool.add(a_row(note="x" * 500) for _ in range(2000))
    spool.batch()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    spool.add(a_row(note="x" * 500) for _ in range(40_000))

    spool.batch()

    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10 << 10
