"""The benchmarks run and tell what they promise. With the smallest counts: nothing here judges how fast anything is."""

import json
import math
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.benchmarks import __main__ as bench
from tests.benchmarks import installed
from tests.benchmarks.figures import Figure, as_json, table
from tests.benchmarks.questions import body, different_questions, mixed, refusals
from tests.benchmarks.workplace import QUICK, Workplace
from tests.databases import Databases

# The targets that have a bar; the rest is told beside them.
BARRED = {
    "process": 11,
    "domain": 1,
    "commands": 4,
    "engines": 2,
    "sql": 2,
    "http": 2,
    "latency": 1,
    "memory": 2,
    "start": 3,
    "logs": 6,
    "catalog": 13,
    "client": 2,
    "probe": 2,
    "ingest": 11,
    "learned": 10,
}


@pytest.fixture(scope="module")
def place(sqlite: Databases, postgresql: Databases) -> Iterator[Workplace]:
    with ExitStack() as stack:
        yield Workplace(
            QUICK, lambda: stack.enter_context(sqlite.loaded()), lambda: stack.enter_context(postgresql.loaded())
        )


@pytest.mark.parametrize("section", bench.SECTIONS)
def test_each_section_gives_its_figures(section: str, place: Workplace) -> None:
    figures = bench.SECTIONS[section](place)

    assert sum(figure.bar is not None for figure in figures) == BARRED[section]
    assert all(math.isfinite(figure.seen) for figure in figures)


def test_a_quote_runs_no_sql(place: Workplace) -> None:
    assert [figure.seen for figure in bench.SECTIONS["sql"](place)] == [0, 0]


def test_questions_differ_and_are_the_same_in_every_run(place: Workplace) -> None:
    first, second = (different_questions(place.catalog, 100) for _ in range(2))

    assert first == second
    assert len({body(asked) for asked in first}) == 100
    assert len({asked["model"] for asked in first}) > 50


def test_every_kind_of_refusal_has_its_turn(place: Workplace) -> None:
    kinds = refusals(place.questions)
    turns = mixed(kinds)

    assert len(turns) == len(place.questions)
    assert [turn in kinds[kind] for turn, kind in zip(turns, kinds, strict=False)] == [True] * len(kinds)


@pytest.mark.parametrize("module, found", [("flask", True), ("psycopg", True), ("service", True), ("pytest", False)])
def test_a_process_finds_what_production_has_installed(module: str, found: bool) -> None:
    command, where = installed.python(f"import {module}"), {"cwd": installed.ROOT, "env": installed.environment()}

    ended = subprocess.run(command, capture_output=True, text=True, check=False, **where)  # type: ignore[call-overload]

    assert (ended.returncode == 0) is found
    assert found or f"{module} is not installed in production" in ended.stderr


def test_a_process_reads_byte_code_that_was_written_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    code = "import sys, flask; print(sys.dont_write_bytecode, open(flask.__cached__, 'rb').read(4) != b'')"

    said = subprocess.check_output(installed.python(code), cwd=installed.ROOT, env=installed.environment(), text=True)

    assert said.split() == ["False", "True"]


def test_a_figure_above_its_bar_is_missed() -> None:
    figures = [Figure("low", 1.0, "x", 2), Figure("high", 3.0, "x", 2), Figure("told", 9.0, "x")]

    assert [figure.ok for figure in figures] == [True, False, True]
    assert as_json(figures)["ok"] is False
    assert [line.split()[-1] for line in table(figures).splitlines()[2:]] == ["yes", "MISSED", "x"]


@pytest.mark.parametrize("seen, status", [(1.0, 0), (3.0, 1)])
def test_the_command_ends_with_1_where_a_bar_is_missed(
    seen: float, status: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(bench.SECTIONS, "domain", lambda _place: [Figure("one", seen, "x", 2)])
    written = tmp_path / "figures.json"

    assert bench.main(["domain", "--json", str(written)]) == status
    assert "one" in capsys.readouterr().out
    assert json.loads(written.read_text())["figures"][0]["seen"] == seen
