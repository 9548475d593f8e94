"""Latency at a fixed rate that leaves the machine room: the 99th percentile of /fit against a bare WSGI callable's.

The target's 800 requests a second belong to a machine on which gunicorn answers a bare Flask view in 185 us of CPU; a
slower machine is asked as much less often, so that it is as busy. Two workers each; each round gives one percentile,
and the medians of both are compared.
"""

from collections.abc import Sequence
from itertools import cycle, islice
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.figures import Figure
from tests.benchmarks.loading import Load, closed_loop, fixed_rate, post
from tests.benchmarks.memory import ask_every_worker
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.questions import body
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

PER_SECOND = 800
FLASK_SECONDS = 185e-6
WORKERS = 2
_TAIL = 0.99


def measure(place: Workplace) -> list[Figure]:
    questions = [post("/fit", body(asked)) for asked in place.questions]
    sqlite_url, seconds = place.sqlite_url, place.effort.seconds
    rate = _rate(place.effort.asked)
    with (
        servers.bare("bare_wsgi", WORKERS, HELLO) as bare,
        servers.service(sqlite_url, WORKERS, questions[0]) as service,
    ):
        # Both workers have read the models that are asked for, so that what is measured is answering.
        ask_every_worker(service, questions[: 2 * place.effort.asked])
        place.say(f"latency: /fit and a bare callable in turn, {rate:.0f} requests a second")
        rounds = [
            (_load(bare, [HELLO], rate, seconds), _load(service, questions, rate, seconds))
            for _ in range(place.effort.rounds)
        ]
    plain, quoted = (median(load.percentile(_TAIL) for load in loads) for loads in zip(*rounds, strict=True))
    return [
        Figure("latency: requests a second asked", rate, "/s"),
        Figure("latency: requests a second answered, least", min(load.per_second for _, load in rounds), "/s"),
        Figure("latency: p50 of /fit", median(load.percentile(0.5) for _, load in rounds) * 1e3, "ms"),
        Figure("latency: p99 of /fit", quoted * 1e3, "ms"),
        Figure("latency: p99 of a bare WSGI callable", plain * 1e3, "ms"),
        Figure("latency: p99 of /fit, to the bare callable", quoted / plain, "x", 3),
    ]


def _rate(count: int) -> float:
    """What is to this machine what PER_SECOND is to one that answers a bare Flask view in FLASK_SECONDS."""
    with servers.bare("bare_flask", 1, HELLO) as flask:
        closed_loop(flask.port, [HELLO] * count)
        before = flask.cpu_seconds()
        closed_loop(flask.port, [HELLO] * count)
        each = (flask.cpu_seconds() - before) / count
    return min(PER_SECOND, PER_SECOND * FLASK_SECONDS / each) if each else PER_SECOND


def _load(server: Server, requests: Sequence[bytes], rate: float, seconds: float) -> Load:
    return fixed_rate(server.port, list(islice(cycle(requests), max(1, int(rate * seconds)))), rate)
