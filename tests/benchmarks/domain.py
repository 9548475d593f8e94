"""The arithmetic alone: /fit with levers and derivation, from a question that was read to the answer as a dict.

The issue's 0.15 ms are for a machine on which the bare Flask view takes 40 us, so the time is told as it is here and
scaled to such a machine.
"""

from collections.abc import Callable
from itertools import islice
from time import process_time

from service.answers import fit_answer
from service.storage.snapshot import Snapshot
from tests.benchmarks.bare_flask import app as bare_app
from tests.benchmarks.calling import Contender, gets, interleaved
from tests.benchmarks.figures import Figure, microseconds, ratio
from tests.benchmarks.questions import Asked, readable_models, rotated
from tests.benchmarks.workplace import Workplace, keeper_of

VIEW_SECONDS = 40e-6
BAR_SECONDS = 150e-6


def measure(place: Workplace) -> list[Figure]:
    bare = gets(bare_app, "/", place.effort.asked)
    fit = _answers(place.questions, place.effort.asked, place.catalog)
    place.say("domain: /fit without HTTP, and a bare view in turn")
    interleaved([bare, fit], place.effort.rounds)
    relative = fit.best / bare.best
    return [
        microseconds("domain: /fit with levers and derivation, here", fit.best),
        ratio("domain: /fit, to the bare view", fit.best, bare.best),
        microseconds("domain: /fit, where the view takes 40 us", relative * VIEW_SECONDS, BAR_SECONDS * 1e6),
        microseconds("domain: the first question about a model, median", _first_questions(place)),
    ]


def _answers(questions: list[Asked], count: int, catalog: Snapshot) -> Contender:
    slices = rotated(questions, count)

    def batch() -> Callable[[], int]:
        asked = next(slices)

        def work() -> int:
            for question in asked:
                fit_answer(question, catalog)
            return len(asked)

        return work

    return Contender(batch)


def _first_questions(place: Workplace) -> float:
    """CPU time of the first question about each model: its config is read then, and its shapes are counted."""
    names = list(islice(readable_models(place.catalog), place.effort.asked))
    seconds = []
    with keeper_of(place.sqlite_url) as keeper:
        keeper.refresh()
        catalog = keeper.current()
        for name in names:
            started = process_time()
            fit_answer({"model": name, "gpu": "h100-sxm-80gb", "context_tokens": 4096}, catalog)
            seconds.append(process_time() - started)
    return sorted(seconds)[len(seconds) // 2]
