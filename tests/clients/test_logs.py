"""Start-up logs through the SDK and the command line, against the real application."""

import csv
import io
import json
import sys
from pathlib import Path

import pytest
from flask import Flask

from kvquote_client import Client, Refused
from kvquote_client.cli import main
from kvquote_client.cli.logs_text import lines, rows
from kvquote_client.cli.screen import Screen
from kvquote_client.log_answers import LogAnswer
from kvquote_client.reading import read

LOGS = Path(__file__).parents[1] / "data" / "logs"
TEXT = (LOGS / "vllm-0.20.2.log").read_text(encoding="utf-8")
GPU = "h100-sxm-80gb"


def printed(capsys: pytest.CaptureFixture[str]) -> str:
    """What the command wrote; the served application logs to the same place."""
    return "".join(line for line in capsys.readouterr().out.splitlines(True) if '"http_request"' not in line)


def test_a_log_is_answered_as_the_service_answers_it(kvquote: Client, app: Flask) -> None:
    answer = kvquote.logs(TEXT, gpu=GPU)

    assert answer.raw == app.test_client().post("/logs", json={"log": TEXT, "gpu": GPU}).get_json()


def test_what_is_compared_is_what_the_log_says_beside_what_fit_quotes(kvquote: Client) -> None:
    answer = kvquote.logs(TEXT, gpu=GPU)

    assert answer.quote is not None
    pool = next(part.bytes for part in answer.quote.ledger.parts if part.name == "kv_cache")
    row = next(each for each in answer.comparison if each.part == "kv_cache")
    assert (row.said_bytes, row.quoted_bytes) == (answer.said.kv_cache_bytes, pool)
    assert row.difference_bytes == pool - int(answer.said.kv_cache_bytes or 0)
    assert {each.name for each in answer.counts} == {"kv_capacity_tokens", "max_concurrency"}


def test_what_the_caller_says_goes_before_what_the_log_says(kvquote: Client) -> None:
    answer = kvquote.logs(TEXT, gpu=GPU, context_limit_tokens=4096)

    assert answer.said.context_limit_tokens == 32768
    assert (answer.question["context_limit_tokens"], answer.taken["context_limit_tokens"]) == (4096, "request")


def test_a_log_that_cannot_be_quoted_says_why(kvquote: Client) -> None:
    answer = kvquote.logs(TEXT)

    assert answer.quote is None
    assert answer.unquoted is not None
    assert [fault["pointer"] for fault in answer.unquoted.errors] == ["/gpu"]


@pytest.mark.parametrize("line", ["\x1b[32m\x1b[0m\n", '"{\\}"\n'])
def test_a_log_that_json_would_make_too_long_is_sent_as_it_is(kvquote: Client, line: str) -> None:
    long = TEXT + line * ((10 * 2**20 - len(TEXT)) // len(line))

    answer = kvquote.logs(long, gpu=GPU, tensor_parallel=1, prefix_caching=True)

    assert (answer.taken["gpu"], answer.taken["prefix_caching"]) == ("request", "request")
    assert answer.said.raw == kvquote.logs(TEXT, gpu=GPU).said.raw


def test_a_text_that_is_no_log_is_refused(kvquote: Client) -> None:
    with pytest.raises(Refused) as caught:
        kvquote.logs("it is raining")

    assert [fault["pointer"] for fault in caught.value.errors] == ["/log"]


@pytest.mark.parametrize("charset", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_is_read_in_whatever_charset_its_mark_says(
    charset: str, tmp_path: Path, service_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "engine.log"
    file.write_bytes(TEXT.encode(charset))

    assert main(["logs", str(file), "--gpu", GPU, "--url", service_url, "--json"]) == 0
    assert json.loads(printed(capsys))["said"]["kv_capacity_tokens"] == 438272


def test_a_log_is_read_from_a_pipe(
    service_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A byte that is no UTF-8, as terminals and progress bars leave them.
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff\n" + TEXT.encode())))

    assert main(["logs", "-", "--gpu", GPU, "--url", service_url, "--csv"]) == 0
    rows = list(csv.DictReader(io.StringIO(printed(capsys))))
    assert [(row["part"], row["unit"]) for row in rows] == [
        ("weights", "bytes"),
        ("graphs", "bytes"),
        ("kv_cache", "bytes"),
        ("kv_capacity_tokens", "count"),
        ("max_concurrency", "count"),
    ]


def test_a_log_that_cannot_be_quoted_still_gives_rows(service_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["logs", str(LOGS / "vllm-0.20.2.log"), "--url", service_url, "--csv"]) == 3
    found = {row["part"]: row for row in csv.DictReader(io.StringIO(printed(capsys)))}

    assert (found["kv_capacity_tokens"]["said"], found["kv_capacity_tokens"]["quoted"]) == ("438272", "")
    assert {name: found[name]["unit"] for name in ("model", "weight_bytes", "blocks") if name in found} == {
        "model": "text",
        "weight_bytes": "bytes",
    }


def test_every_log_is_shown_with_all_that_it_says(kvquote: Client) -> None:
    paths = sorted(LOGS.glob("*.log"))
    answers = [kvquote.logs(path.read_bytes().decode("utf-8", "replace"), gpu=GPU) for path in paths]

    assert answers
    for path, answer in zip(paths, answers, strict=True):
        found = [name for name, value in answer.said.raw.items() if value is not None]
        shown = "\n".join(lines(answer, Screen(), why=True))
        assert [name for name in found if name not in shown] == [], path
        assert bool(rows(answer)) == bool(found), path


def test_a_log_answer_that_says_less_than_promised_is_shown_too() -> None:
    answer = read(LogAnswer, {"engine": {}, "said": {}, "per_rank": [{}, {}], "refusal": {}, "comparison": [{}]})

    assert lines(answer, Screen(), why=True)[0] == "a log of - of an unknown release: no line of it"
