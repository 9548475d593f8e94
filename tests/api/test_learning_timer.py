"""The timer that has a server learn: only where there is something to learn, and never in the server itself."""

import sys
from collections.abc import Sequence

import pytest

from service.api.services import services_of
from service.learning_timer import LearningTimer
from tests.api.school import School
from tests.fleet import GIB, fleet

NOTHING = (sys.executable, "-c", "")


def timer(school: School, command: Sequence[str] = NOTHING, seconds: float = 60) -> LearningTimer:
    having = services_of(school.lab.app)
    having.keeper.refresh()
    return LearningTimer(having.engine, having.keeper, seconds, command)


def test_it_runs_only_where_there_is_something_to_learn(school: School) -> None:
    assert timer(school).run_once() is False

    school.lab.upload(*fleet(1.0 * GIB))
    assert timer(school).run_once() is True

    school.learn()
    assert timer(school).run_once() is False


def test_the_command_learns_from_what_was_uploaded(school: School, monkeypatch: pytest.MonkeyPatch) -> None:
    url = services_of(school.lab.app).engine.url
    monkeypatch.setenv("DATABASE_URL", url.render_as_string(hide_password=False))
    school.lab.upload(*fleet(1.0 * GIB))
    having = services_of(school.lab.app)
    having.keeper.refresh()

    assert LearningTimer(having.engine, having.keeper, 60).run_once()

    having.keeper.refresh()
    assert school.fit()["calibration"]["probes"] == 20


def test_no_seconds_are_no_timer(school: School) -> None:
    import threading

    before = threading.active_count()
    timer(school, seconds=0).start()

    assert threading.active_count() == before


def test_a_run_that_fails_is_told_and_tried_again(school: School, caplog: pytest.LogCaptureFixture) -> None:
    import time

    school.lab.upload(*fleet(1.0 * GIB))
    failing = timer(school, (sys.executable, "-c", "raise SystemExit(3)"), seconds=0.05)

    failing.start()
    until = time.monotonic() + 20
    while len(caplog.records) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    failing.stop()

    assert len([record for record in caplog.records if "not learned" in record.message]) >= 2
