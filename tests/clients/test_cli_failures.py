"""The command where the service, the terminal or the user does something unusual."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvquote_client.cli import main
from tests.clients.faulty import Faulty, Say, good, problem, reply, silent
from tests.tooling.repository import ROOT

SOURCES = ROOT / "clients" / "src"
ANSWER = {"max_sequences": 3, "ledger": {"memory_bytes": 1, "overcommitted_bytes": 0, "parts": []}}
COMMAND = [sys.executable, "-m", "kvquote_client"]


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in {"NO_COLOR", "COLUMNS", "PYTHONPATH"}}
    return {**kept, "PYTHONPATH": str(SOURCES), "TERM": "xterm", **more}


@pytest.mark.parametrize(
    "said, status",
    [
        pytest.param(problem(500), 4, id="500"),
        pytest.param(problem(429, Retry_After="3600"), 4, id="overloaded"),
        pytest.param(problem(403), 3, id="403"),
        pytest.param(reply(200, b"<html></html>", "text/html"), 4, id="html"),
        pytest.param(reply(404, b"<html></html>", "text/html"), 4, id="another-page"),
        pytest.param(reply(401, b"<html></html>", "text/html"), 3, id="a-proxy-that-asks-who"),
        pytest.param(reply(302, b"", Location="https://login.example"), 4, id="redirect"),
        pytest.param(good([]), 4, id="a-list"),
        pytest.param(good({"ok": True}), 4, id="another-service"),
        pytest.param(problem(422, {"errors": [{"pointer": 5, "detail": None, "nearest": [1, None]}, 7]}), 3, id="odd"),
    ],
)
def test_it_ends_as_it_says_it_does(faulty: Faulty, said: Say, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    faulty.says(said)

    assert main(["fit", "m", "g", "--url", faulty.url, "--retries", "0"]) == status
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("kvquote: ")
    assert "Traceback" not in printed.err


@pytest.mark.parametrize("form", ["--json", "--csv", "--why"])
def test_an_answer_that_says_next_to_nothing_is_shown(
    faulty: Faulty, form: str, capsys: pytest.CaptureFixture[str]
) -> None:
    faulty.says(good(ANSWER))

    assert main(["fit", "m", "g", "--url", faulty.url, form]) == 0
    assert "3" in capsys.readouterr().out


def test_traffic_that_says_next_to_nothing_is_shown(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    faulty.says(good({"total_traffic_bytes": 7, "curve": [{}], "step": {}}))

    assert main(["traffic", "m", "g", "--url", faulty.url]) == 0
    assert "7 B" in capsys.readouterr().out


def test_what_others_named_moves_no_cursor(faulty: Faulty, capsys: pytest.CaptureFixture[str]) -> None:
    evil = "x\x1b[2J\x9b31m\r\n\u202eevil"
    faulty.says(good({**ANSWER, "model": {"name": evil}, "warnings": [evil], "engine": {"name": evil}}))
    assert main(["fit", "m", "g", "--url", faulty.url]) == 0
    faulty.says(problem(422, {"title": evil, "detail": evil, "request_id": evil}))
    assert main(["fit", "m", "g", "--url", faulty.url]) == 3
    faulty.says(good({"items": [{"id": evil, "name": evil}], "next_cursor": None}))
    assert main(["gpus", "--url", faulty.url]) == 0

    printed = capsys.readouterr()
    assert {char for char in printed.out + printed.err if not char.isprintable()} == {"\n"}


def test_the_token_comes_from_the_environment_and_is_never_shown(
    faulty: Faulty, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("KVQUOTE_TOKEN", "kvq_secret")
    faulty.says(problem(401))
    main(["fit", "m", "g", "--url", faulty.url])

    assert faulty.asked[0].headers["Authorization"] == "Bearer kvq_secret"
    assert "kvq_secret" not in "".join(capsys.readouterr())


@pytest.fixture
def listed(faulty: Faulty) -> str:
    """A service with more rows than a pipe holds."""
    rows = [{"id": f"gpu-{number:05}", "name": "é×" * 20} for number in range(5_000)]
    faulty.says(good({"items": rows, "next_cursor": None}))
    return faulty.url


def test_a_reader_that_has_seen_enough_is_no_error(listed: str) -> None:
    words = [*COMMAND, "gpus", "--csv", "--url", listed]
    with subprocess.Popen(words, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.readline()
        run.stdout.close()

        assert run.stderr.read() == b""
    assert run.returncode == 141


@pytest.mark.parametrize(
    "redirect, status, said",
    [(">&-", 0, ""), ("2>&-", 0, ""), (">/dev/full", 4, "No space left")],
    ids=["no-output", "no-errors", "a-full-disk"],
)
def test_a_place_that_takes_no_output_is_no_traceback(redirect: str, status: int, said: str, listed: str) -> None:
    command = f"{sys.executable} -m kvquote_client gpus --url {listed} {redirect}"
    ran = subprocess.run(["sh", "-c", command], env=environment(), capture_output=True, text=True, check=False)

    assert ran.returncode == status
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_terminal_that_knows_only_ascii_is_given_ascii(listed: str) -> None:
    words = [*COMMAND, "gpus", "--url", listed]
    ran = subprocess.run(words, env=environment(PYTHONIOENCODING="ascii"), capture_output=True, check=True)

    assert ran.stdout.decode("ascii").count("gpu-") == 5_000
    assert ran.stderr == b""


def test_an_interruption_ends_it_without_a_word(faulty: Faulty) -> None:
    faulty.says(silent(30))
    with subprocess.Popen([*COMMAND, "fit", "m", "g", "--url", faulty.url], env=environment(), stderr=-1) as run:
        deadline = time.monotonic() + 30
        while not faulty.asked and time.monotonic() < deadline:
            time.sleep(0.02)
        run.send_signal(signal.SIGINT)
        assert run.stderr is not None

        assert run.stderr.read() == b""
    assert run.returncode == 130


def on_a_terminal(columns: int, *words: str, **more: str) -> str:
    """What the command writes to a terminal of that width."""
    watched, given = pty.openpty()
    names = environment(COLUMNS=str(columns), **more)
    with subprocess.Popen([*COMMAND, *words], env=names, stdout=given, stderr=subprocess.DEVNULL):
        os.close(given)
        read = b""
        try:
            while piece := os.read(watched, 4096):
                read += piece
        except OSError:  # how a terminal says that nobody writes to it any more
            pass
    os.close(watched)
    return read.decode()


def test_a_terminal_has_colours_and_a_bar_of_its_width(service_url: str) -> None:
    words = ("fit", "llama-2-7b", "a10", "--context", "1024", "--url", service_url)
    coloured = on_a_terminal(60, *words)
    plain = on_a_terminal(60, *words, NO_COLOR="1")

    assert "\x1b[34m█" in coloured
    assert "\x1b" not in plain
    assert max(line.count("█") + line.count("▒") + line.count("▓") for line in plain.splitlines()) == 56


def test_a_narrow_terminal_is_told_what_is_left_out(service_url: str) -> None:
    shown = on_a_terminal(40, "gpus", "--limit", "2", "--url", service_url).splitlines()

    assert max(map(len, shown[:-1])) <= 40
    assert "more columns" in shown[-1]


def test_a_question_from_standard_input_is_read(service_url: str, tmp_path: Path) -> None:
    from tests.clients.test_client import CONFIG

    words = [*COMMAND, "fit", "--config", "-", "--memory-bytes", "8GB", "--json", "--url", service_url]
    text = json.dumps(CONFIG)
    ran = subprocess.run(words, env=environment(), input=text, cwd=tmp_path, capture_output=True, text=True, check=True)

    assert json.loads(ran.stdout)["fits"] is True
