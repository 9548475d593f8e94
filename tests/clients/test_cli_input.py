"""What is typed carelessly or by somebody hostile: one line on standard error, a status that is documented."""

import csv
import io
import json
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from kvquote_client.cli import main
from tests.clients.faulty import Faulty, good, problem
from tests.clients.test_cli_failures import ANSWER, COMMAND, environment

Captured = pytest.CaptureFixture[str]
FIT = ("fit", "m", "g")
NONSENSE = {
    "no number": (*FIT, "--context", "nan"),
    "beyond numbers": (*FIT, "--context", "1e400"),
    "a share of nothing": (*FIT, "--memory-utilization", "nan"),
    "beyond sizes": (*FIT, "--memory-bytes", "1e400GB"),
    "beyond sizes in bytes": (*FIT, "--memory-bytes", "1e400"),
    "a size of nothing": (*FIT, "--memory-bytes", "GB"),
    "a fraction of a token": (*FIT, "--context", "1.5"),
    "an empty number": (*FIT, "--context", ""),
    "a text to require": (*FIT, "--require", "32x"),
    "nothing to require": (*FIT, "--require", "0"),
    "less than nothing to require": (*FIT, "--require", "-3"),
    "endless to require": (*FIT, "--require", "inf"),
    "an empty address": (*FIT, "--url", ""),
    "an address without a scheme": (*FIT, "--url", "localhost:8000"),
    "an address with a password": (*FIT, "--url", "http://me:secret@localhost"),
    "an empty token": (*FIT, "--token", ""),
    "a token of two lines": (*FIT, "--token", "secret\nX-Evil: 1"),
    "a token of no ASCII": (*FIT, "--token", "secretключ"),
    "no time": (*FIT, "--timeout", "0"),
    "endless time": (*FIT, "--timeout", "inf"),
    "time beyond clocks": (*FIT, "--timeout", "1e300"),
    "a deadline beyond clocks": (*FIT, "--deadline", "1e300"),
    "less than no tries": (*FIT, "--retries", "-1"),
    "half a character": ("fit", "\udcff", "g"),
    "half a character in a config": ("fit", "--gpu", "g", "--config", '{"a": "\\ud800"}'),
    "a config that is a folder": (*FIT, "--config", "/"),
    "a config that is not there": (*FIT, "--config", "/nowhere/config.json"),
    "a config that is a list": (*FIT, "--config", "/dev/null"),
    "a config without an end": ("fit", "--gpu", "g", "--config", '{"a":' * 100_000),
    "a file's name that is none": (*FIT, "--config", "a\0b"),
    "an engine's command of nothing": ("fit", "--gpu", "g", "--"),
    "an unknown option": (*FIT, "--contxt", "5"),
    "a part of an option": (*FIT, "--conte", "5"),
    "a word too many": (*FIT, "more"),
    "no command": (),
    "models of no name": ("compare", ",", "g"),
    "a list of no names": ("compare", "m", ""),
    "a model twice": (*FIT, "--model", "other"),
    "a log that is not there": ("logs", "/nowhere/a.log"),
    "a log that is a folder": ("logs", "/"),
    "a log without a name": ("logs", ""),
    "a log of an impossible name": ("logs", "a\0b"),
    "a database without --local": (*FIT, "--database", "x.db"),
    "local and not": (*FIT, "--local", "--url", "http://a"),
    "no rows": ("gpus", "--limit", "0"),
}


@pytest.mark.parametrize("which", NONSENSE)
def test_what_makes_no_sense_ends_with_2_and_says_so(which: str, faulty: Faulty, capsys: Captured) -> None:
    faulty.says(good(ANSWER))
    words = list(NONSENSE[which])
    given = [] if not words or "--url" in words else ["--url", faulty.url]
    try:
        status = main([*words[:3], *given, *words[3:]] if "--" not in words else [words[0], *given, *words[1:]])
    except SystemExit as ended:
        status = int(str(ended.code))
    printed = capsys.readouterr()

    assert status == 2
    assert printed.out == ""
    assert printed.err.startswith("kvquote")
    assert len(printed.err.splitlines()[0]) < 400
    assert [word for word in ("Traceback", "secret") if word in printed.err] == []
    assert faulty.asked == []


@pytest.mark.parametrize("words", [("logs", "-"), ("fit", "--gpu", "g", "--config", "-")], ids=["logs", "config"])
def test_standard_input_that_is_closed_is_said(words: tuple[str, ...]) -> None:
    command = " ".join([*COMMAND, *words, "--url", "http://127.0.0.1:1", "<&-"])
    ran = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, text=True, check=False)

    assert ran.returncode == 2
    assert "standard input is closed" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("size", [0, 5_000, 10 * 1024 * 1024 + 1], ids=["empty", "binary", "too-large"])
def test_a_log_that_is_none_is_refused(size: int, tmp_path: Path, service_url: str, capsys: Captured) -> None:
    file = tmp_path / "a.log"
    file.write_bytes((b"\x00\xff\x1b[31mx\n" * (size // 8 + 1))[:size])

    assert main(["logs", str(file), "--url", service_url]) == (2 if size > 5_000 else 3)
    assert "kvquote: " in capsys.readouterr().err


@pytest.mark.parametrize("begin", ["=", "+", "-", "@"])
def test_no_spreadsheet_runs_what_somebody_named(begin: str, faulty: Faulty, capsys: Captured) -> None:
    named = f"{begin}HYPERLINK(1)"
    faulty.says(good({"items": [{"id": named, "name": "plain", "memory_bytes": -5}], "next_cursor": None}))

    assert main(["gpus", "--csv", "--url", faulty.url]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (row["id"], row["name"], row["memory_bytes"]) == (f"'{named}", "plain", "-5")


@pytest.mark.parametrize("form", ["--csv", "--json"])
def test_no_form_moves_the_cursor(form: str, faulty: Faulty, capsys: Captured) -> None:
    evil = "x\x1b[2J\x9b31m\r\n\u202eevil\U000e0041"
    faulty.says(good({"items": [{"id": evil, "name": evil}], "next_cursor": None}))
    assert main(["gpus", form, "--url", faulty.url]) == 0
    told = capsys.readouterr().out
    faulty.says(problem(422, {"title": evil, "detail": evil, "request_id": evil}))
    assert main(["gpus", form, "--url", faulty.url]) == 3
    refused = capsys.readouterr()

    assert {char for char in told + refused.out + refused.err if not char.isprintable()} == {"\n"}
    if form == "--json":
        assert json.loads(told)["items"][0]["id"] == evil
        assert json.loads(refused.out)["title"] == evil


def test_a_fault_of_its_own_is_one_line(faulty: Faulty, monkeypatch: pytest.MonkeyPatch, capsys: Captured) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError("so it is")

    monkeypatch.setattr("kvquote_client.cli.quoting.fit", fails)
    words = [*FIT, "--url", faulty.url]

    assert main(words) == 70
    assert capsys.readouterr().err.splitlines() == [
        "kvquote: a fault of kvquote itself, KVQUOTE_DEBUG=1 shows where: ZeroDivisionError('so it is')"
    ]
    monkeypatch.setenv("KVQUOTE_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(words)


def test_a_narrow_charset_and_no_reader_at_all_are_no_traceback(service_url: str) -> None:
    for more in ({"LC_ALL": "C", "PYTHONUTF8": "0"}, {"PYTHONIOENCODING": "latin-1"}):
        words = [*COMMAND, "fit", "llama-2-7b", "a10", "--url", service_url]
        ran = subprocess.run(words, env=environment(**more), capture_output=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, b"")
        assert b"Llama-2-7b" in ran.stdout


def other(folder: Path) -> Path:
    """The database of another program."""
    path = folder / "other.db"
    with closing(sqlite3.connect(path)) as made:
        made.execute("CREATE TABLE theirs (a)")
    return path


def garbage(folder: Path) -> Path:
    path = folder / "garbage.db"
    path.write_bytes(b"no database" * 1000)
    return path


def folder_itself(folder: Path) -> Path:
    return folder


def nowhere(folder: Path) -> Path:
    return folder / "no" / "such" / "folder.db"


@pytest.mark.parametrize("which", [other, garbage, folder_itself, nowhere])
def test_a_local_database_that_is_none_of_ours_is_left_as_it_is(
    which: Callable[[Path], Path], tmp_path: Path, capsys: Captured
) -> None:
    path = which(tmp_path)
    before = path.read_bytes() if path.is_file() else None

    assert main(["fit", "llama-2-7b", "a10", "--local", "--database", str(path)]) == 4
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("kvquote: the local database cannot be used")
    assert (path.read_bytes() if path.is_file() else None) == before
