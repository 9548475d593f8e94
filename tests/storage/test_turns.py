"""A long job takes turns that are short, and uploads are answered between them."""

import time
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest
from sqlalchemy import Engine, text

from service.api.services import services_of
from service.domain.measurement import judge
from service.domain.observations import observe
from service.storage import learning, measurement_settling, turns
from service.storage.learning import learn_some
from service.storage.turns import Turns
from tests.api.probing import verdicts
from tests.api.school import School, new_school
from tests.fleet import memory_row

# Four seconds, in one go or in turns of half a second. A machine that is busy with other tests takes longer for both.
ROWS, ROW_SECONDS = 100, 0.04
LONGEST_WAIT_SHARE = 0.6


@pytest.fixture
def school(database_url: str) -> Iterator[School]:
    with new_school(database_url) as school:
        yield school


def row(number: int) -> Any:  # noqa: ANN401  # a row
    return memory_row(number % 5 + 1, 84_929_347_584, number=number)


def slowly(does: Callable[..., Any]) -> Callable[..., Any]:
    def done(*arguments: Any) -> Any:  # noqa: ANN401  # whatever it is given
        time.sleep(ROW_SECONDS)
        return does(*arguments)

    return done


def longest_wait_share(school: School, job: Callable[[], object]) -> float:
    """How much of a job's time the unluckiest of the uploads waits that are sent while it runs; each is answered."""
    waits: list[float] = []
    working, began = Thread(target=job), time.monotonic()
    working.start()
    # No more than these, or the job would never come to the end of the rows.
    while working.is_alive() and len(waits) < ROWS // 2:
        started = time.monotonic()
        assert verdicts(school.lab.upload(row(10_000 + len(waits)))) == ["accepted"]
        waits.append(time.monotonic() - started)
        time.sleep(0.05)
    working.join()
    assert len(waits) > 3
    return max(waits) / (time.monotonic() - began)


def test_uploads_are_answered_while_it_learns(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.lab.upload(*map(row, range(ROWS)))
    monkeypatch.setattr(learning, "observe", slowly(observe))
    having = services_of(school.lab.app)
    lessons = []

    share = longest_wait_share(school, lambda: lessons.append(learn_some(having.engine, having.keeper.current())))

    assert (lessons[0].rows >= ROWS, lessons[0].done) == (True, True)
    assert share < LONGEST_WAIT_SHARE


def test_uploads_are_answered_while_rows_are_judged_again(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    school.lab.upload(*map(row, range(ROWS)))
    having = services_of(school.lab.app)
    with having.engine.connect() as connection, connection.begin():
        connection.execute(text("UPDATE measurement_name SET pending = true"))
    monkeypatch.setattr(measurement_settling, "judge", slowly(judge))
    settled = []

    def settle() -> None:
        settled.append(measurement_settling.settle_some(having.engine, having.keeper.current(), 60))

    share = longest_wait_share(school, settle)

    assert settled == [True]
    assert share < LONGEST_WAIT_SHARE


def test_a_turn_that_took_long_is_followed_by_a_smaller_one(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, job = iter([0.0, 0.1, 10.0, 12.0, 20.0, 20.2, 30.0, 30.4]), Turns(engine, 50)
    monkeypatch.setattr(turns, "monotonic", lambda: next(clock))
    sizes = [job.rows]
    for rows in (32, 50, 12, 0):
        with job.take():
            pass
        job.did(rows)
        sizes.append(job.rows)

    assert sizes == [32, 50, 12, 24, 24]


def test_a_turn_is_over_once_half_of_its_time_is(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, job = iter([0.0, 0.2, 0.3, 0.3]), Turns(engine, 50)
    monkeypatch.setattr(turns, "monotonic", lambda: next(clock))

    with job.take():
        assert [job.is_over(), job.is_over()] == [False, True]


def fail_after(job: Turns, statement: str) -> None:
    with job.take() as connection:
        connection.execute(text(statement))
        raise ZeroDivisionError


def test_a_turn_that_fails_leaves_nothing(engine: Engine) -> None:
    with pytest.raises(ZeroDivisionError):
        fail_after(Turns(engine, 50), "INSERT INTO learning_queue VALUES (7)")

    with engine.connect() as connection:
        assert connection.scalar(text("SELECT count(*) FROM learning_queue")) == 0
