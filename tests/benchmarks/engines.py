"""A question to an engine against the same to engine `none`: the whole request, CPU time, best of the rounds.

The mixed questions are those of the other sections that the engine answers; a hybrid's are about that model alone, each
of another length. Both sides ask with the same fields.
"""

from itertools import count, islice

from flask import Flask

from service.answers import fit_answer
from service.domain.errors import QuoteError
from service.storage.snapshot import Snapshot
from tests.benchmarks import questions as asking
from tests.benchmarks.calling import Contender, application, asks, interleaved
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.questions import Asked
from tests.benchmarks.workplace import Workplace

# What of a question only engine `none` takes.
_PLAIN_NAMES = ("reserve_bytes", "memory_basis", "shared_prefix_tokens")
HYBRIDS = (
    *("ai21-jamba-large-1.5", "falcon-h1-34b-instruct", "gemma-3-27b-it", "gpt-oss-120b", "granite-4.0-h-small"),
    *("kimi-linear-48b-a3b-instruct", "lfm2-8b-a1b", "llama-4-scout-17b-16e-instruct", "minimax-text-01"),
    *("nemotron-h-8b-base-8k", "qwen3.5-35b-a3b", "qwen3-next-80b-a3b-instruct"),
)
"""Models with several kinds of cache layers, which the engine puts into groups."""
Pair = tuple[Contender, Contender]


def measure(place: Workplace) -> list[Figure]:
    mixed = [asked for asked in map(_stripped, place.questions) if _answered(asked, place.catalog)]
    known = [name for name in HYBRIDS if _answered(_about(name, 4096), place.catalog)]
    with application(place.sqlite_url) as app:
        pair = _pair(app, mixed[: place.effort.asked])
        hybrids = {name: _pair(app, _lengths(name, place.effort.asked)) for name in known}
        place.say(f"engines: /fit of vllm and none in turn, {len(mixed):,} mixed questions and {len(known)} hybrids")
        interleaved([*pair, *(side for both in hybrids.values() for side in both)], place.effort.rounds)
    worst = max(hybrids, key=lambda name: _times(hybrids[name]))
    vllm, none = hybrids[worst]
    return [
        ratio("engines: /fit of vllm, to none", pair[0].best, pair[1].best, 2),
        ratio(f"engines: the worst hybrid of vllm, to none ({worst})", vllm.best, none.best, 3),
    ]


def _times(pair: Pair) -> float:
    return pair[0].best / pair[1].best


def _pair(app: Flask, questions: list[Asked]) -> Pair:
    vllm, none = ([asking.body({**asked, "engine": engine}) for asked in questions] for engine in ("vllm", "none"))
    return asks(app, "/fit", lambda: vllm, "200"), asks(app, "/fit", lambda: none, "200")


def _lengths(name: str, asked: int) -> list[Asked]:
    return [_about(name, tokens) for tokens in islice(count(4096), max(1, asked // 10))]


def _about(name: str, tokens: int) -> Asked:
    return {"model": name, "gpu": "h200-sxm-141gb", "context_tokens": tokens}


def _stripped(asked: Asked) -> Asked:
    return {name: value for name, value in asked.items() if name not in _PLAIN_NAMES}


def _answered(asked: Asked, catalog: Snapshot) -> bool:
    try:
        return all(fit_answer({**asked, "engine": engine}, catalog) for engine in ("vllm", "none"))
    except QuoteError:
        return False
