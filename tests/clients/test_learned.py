"""What a service learned, through the SDK and the command line, against an application that was taught."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from kvquote_client import Client, Refused
from kvquote_client.cli import main
from tests.api.school import new_school
from tests.clients.serving import served
from tests.databases import Databases
from tests.fleet import GIB, H100, MODEL, RELEASE, fleet

BEYOND = 1.0 * GIB
QUESTION: dict[str, Any] = {
    "model": MODEL,
    "gpu": H100,
    "engine": "vllm",
    "engine_version": RELEASE,
    "context_tokens": 8192,
}


class Taught(NamedTuple):
    """A service that learned that the engine keeps BEYOND more than is modelled, and a client of it."""

    client: Client
    url: str


@pytest.fixture(scope="module")
def taught(sqlite: Databases) -> Iterator[Taught]:
    with sqlite.migrated() as url, new_school(url) as school:
        school.teach(list(fleet(BEYOND)))
        with served(school.lab.app) as address, Client(address) as client:
            yield Taught(client, address)


def printed(taught: Taught, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What the command wrote; the served application logs to the same place."""
    assert main([*words, "--url", taught.url]) == 0
    return "".join(line for line in capsys.readouterr().out.splitlines(True) if '"http_request"' not in line)


def test_what_was_learned_is_listed_with_its_revision(taught: Taught) -> None:
    (page,) = taught.client.calibrations.list(limit=500).pages()

    assert (page.calibration_revision, page.catalog_revision) == (1, None)
    reserves = [row for row in page.items if row.quantity == "reserve" and row.usable]
    assert reserves
    assert {row.unit for row in reserves} == {"bytes"}
    assert all(row.low == pytest.approx(BEYOND, rel=0.05) and row.low <= row.high for row in reserves)
    assert max(row.estimate for row in reserves) == pytest.approx(BEYOND, rel=0.1)


def test_what_was_learned_comes_in_pages_and_by_filters(taught: Taught) -> None:
    every = list(taught.client.calibrations.list())

    assert list(taught.client.calibrations.list(limit=1)) == every
    assert list(taught.client.calibrations.list(usable=True, engine=["vllm"], history=True)) == [
        row for row in every if row.usable and row.engine == "vllm"
    ]
    assert list(taught.client.calibrations.list(gpu="a10")) == []
    with pytest.raises(Refused) as caught:
        list(taught.client.calibrations.list(as_of="2001-01-01T00:00:00Z"))
    assert [fault["pointer"] for fault in caught.value.errors] == ["/as_of"]


def test_how_quotes_fared_is_listed_by_group(taught: Taught) -> None:
    rows = list(taught.client.accuracy.list(gpu=H100, engine="vllm"))

    assert [(row.family, row.engine_version, row.figure) for row in rows] == [("llama", RELEASE, "kv_cache_bytes")]
    assert rows[0].median_error > 0
    assert list(taught.client.accuracy.list(family="qwen2")) == []


def test_an_answer_says_what_it_uses_of_it(taught: Taught) -> None:
    calibration = taught.client.fit(**QUESTION).calibration

    assert calibration is not None
    (part,) = calibration.learned
    assert (part.quantity, part.rung, part.probes) == ("reserve", calibration.rung, calibration.probes)
    assert part.beyond_catalog_bytes == pytest.approx(BEYOND, rel=0.1)
    assert part.spread_bytes == calibration.spread_bytes
    assert part.versions == (RELEASE,)
    assert taught.client.fit(**QUESTION, calibration="off").calibration is None


def test_fit_shows_what_measurements_added(taught: Taught, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("fit", MODEL, H100, "--context", "8192", "--engine", "vllm", "--engine-version", RELEASE)
    (line,) = [each for each in printed(taught, capsys, *words).splitlines() if each.startswith("learned")]

    assert " reserve +" in line
    assert "20 probes measured +" in line
    assert " rows, gpu+engine" in line


def test_the_list_of_what_was_learned_is_a_table(taught: Taught, capsys: pytest.CaptureFixture[str]) -> None:
    rows = list(taught.client.calibrations.list())
    header, _, *lines = printed(taught, capsys, "calibrations").splitlines()

    assert header.split()[:4] == ["quantity", "of", "beyond", "the"]
    assert len(lines) == len(rows)
    assert any(f"{H100}, vllm, {RELEASE}" in line and " GiB " in line and " yes " in line for line in lines)
    assert [line for row, line in zip(rows, lines, strict=True) if row.refusal and not line.endswith(row.refusal)] == []


def test_the_list_of_how_quotes_fared_is_a_table(taught: Taught, capsys: pytest.CaptureFixture[str]) -> None:
    header, _, line = printed(taught, capsys, "accuracy", "--engine", "vllm").splitlines()

    assert header.startswith("family")
    assert line.split()[:5] == ["llama", H100, "vllm", RELEASE, "kv_cache_bytes"]
    assert " %" in line


@pytest.mark.parametrize("name", ["accuracy", "calibrations"])
def test_the_rows_come_as_json_and_csv(name: str, taught: Taught, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [row.raw for row in getattr(taught.client, name).list()]

    assert json.loads(printed(taught, capsys, name, "--json")) == {"items": rows}
    found = list(csv.DictReader(io.StringIO(printed(taught, capsys, name, "--csv"))))
    assert [row["gpu"] for row in found] == [row["gpu"] or "" for row in rows]
    assert printed(taught, capsys, name, "--limit", "1", "--json") == json.dumps({"items": rows[:1]}, indent=2) + "\n"
