"""One request inside the process, without a socket, against a bare Flask JSON view: CPU time, best of the rounds."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from flask import Flask

from tests.benchmarks import questions as asking
from tests.benchmarks.bare_flask import app as bare_app
from tests.benchmarks.calling import Contender, application, asks, gets, interleaved
from tests.benchmarks.figures import Figure, microseconds, ratio
from tests.benchmarks.questions import Asked
from tests.benchmarks.workplace import Workplace


def measure(place: Workplace) -> list[Figure]:
    sqlite_url, postgresql_url = place.sqlite_url, place.postgresql_url
    effort, kinds = place.effort, asking.refusals(place.questions)
    with ExitStack() as stack:
        app = stack.enter_context(application(sqlite_url))
        other = stack.enter_context(application(postgresql_url))
        bare = gets(bare_app, "/", effort.asked)
        fit, traffic = (_asked(app, path, place.questions, effort.asked) for path in ("/fit", "/traffic"))
        postgresql = _asked(other, "/fit", place.questions, effort.asked)
        every = _asked(app, "/fit", asking.mixed(kinds), effort.asked, "422")
        configs = asking.config_questions(place.questions[: effort.asked], place.catalog)
        config = _asked(app, "/fit", configs, _part(effort.asked, 5))
        refused = {kind: _asked(app, "/fit", asked, _part(effort.asked, 8), "422") for kind, asked in kinds.items()}
        place.say("in process: /fit, /traffic, refusals, configs and a bare view in turn")
        interleaved([bare, fit, traffic, postgresql, every, config, *refused.values()], effort.rounds)
    return [
        microseconds("in process: a bare Flask JSON view", bare.best),
        microseconds("in process: /fit", fit.best),
        ratio("in process: /fit, to the bare view", fit.best, bare.best, 6.5),
        ratio("in process: /traffic, to /fit", traffic.best, fit.best, 1.3),
        ratio("in process: /fit on PostgreSQL, to SQLite", postgresql.best, fit.best, 1.1),
        ratio("in process: a 422 of any kind, to a 200", every.best, fit.best, 1.5),
        *(ratio(f"in process: 422 for {kind}, to a 200", it.best, fit.best, 1.5) for kind, it in refused.items()),
        ratio("in process: /fit by config, to by model", config.best, fit.best, 3),
    ]


def _part(count: int, share: int) -> int:
    """A smaller round, for what is told beside the bars."""
    return max(1, count // share)


def _asked(app: Flask, path: str, asked: list[Asked], count: int, expected: str = "200") -> Contender:
    return asks(app, path, _bodies(asked, count), expected)


def _bodies(asked: list[Asked], count: int) -> Callable[[], Sequence[bytes]]:
    slices = asking.rotated(asked, count)
    return lambda: [asking.body(question) for question in next(slices)]
