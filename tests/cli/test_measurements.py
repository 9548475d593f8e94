"""`kvquote-server measurements`: what it learns and lets go, and what it says of it."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

from service import cli
from tests.api.school import School, new_school
from tests.fleet import GIB, fleet

Run = Callable[..., Result]


@pytest.fixture
def own_school(database_url: str) -> Iterator[School]:
    with new_school(database_url) as school:
        yield school


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, database_url: str) -> Run:
    monkeypatch.setenv("DATABASE_URL", database_url)
    return lambda *arguments: CliRunner().invoke(cli.main, ["measurements", *map(str, arguments)])


def test_what_came_is_learned_once(own_school: School, run: Run) -> None:
    own_school.lab.upload(*fleet(1.0 * GIB))

    first, second = run("learn"), run("learn")

    assert (first.exit_code, second.exit_code) == (0, 0)
    assert first.output == "20 rows looked at, 20 samples kept: calibration revision 1.\n"
    assert second.output == "0 rows looked at, 20 samples kept: nothing new was learned.\n"


def test_every_so_often_it_learns_again(own_school: School, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[int] = []

    def wait(seconds: int) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            raise KeyboardInterrupt
        own_school.lab.upload(*fleet(1.0 * GIB))

    monkeypatch.setattr("service.cli_measurements.time.sleep", wait)

    assert "20 rows looked at" in run("learn", "--every", 7).output
    assert waits == [7, 7]


def test_only_old_rows_go_and_it_says_how_many(own_school: School, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    own_school.teach([row for number in range(12) for row in fleet(1.0 * GIB, nodes=3, number=number)])

    assert run("thin", "--days", 1).output == "0 rows are gone, 0 older ones stay: learned from, or waiting.\n"

    from datetime import UTC, datetime, timedelta

    from service.storage import thinning

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]  # noqa: ARG003  # as its base
            return datetime.now(UTC) + timedelta(days=3)

    monkeypatch.setattr(thinning, "datetime", Later)
    dry, wet = run("thin", "--days", 1, "--dry-run"), run("thin", "--days", 1)

    assert dry.output == "12 rows would go, 24 older ones stay: learned from, or waiting.\n"
    assert wet.output == "12 rows are gone, 24 older ones stay: learned from, or waiting.\n"
    assert own_school.lab.stored() == 24


def test_how_old_must_be_said(run: Run) -> None:
    assert run("thin").exit_code == 2
    assert run("thin", "--days", 0).exit_code == 2
