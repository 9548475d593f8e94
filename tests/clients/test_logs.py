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

LOG = Path(__file__).parents[1] / "data" / "logs" / "vllm-0.20.2.log"
TEXT = LOG.read_text(encoding="utf-8")
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

    assert main(["logs", str(file), "--url", service_url, "--json"]) == 0
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
