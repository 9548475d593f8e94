"""One request under gunicorn, one worker of four threads: CPU time of the server's process tree for each answer.

The servers run all the time; each round asks each of them in turn, eight connections at a time, and gives one ratio.
Told is the median of the rounds. Server and load generator have a core each where there are two.
"""

import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from statistics import median

from tests.benchmarks import servers
from tests.benchmarks.figures import Figure, microseconds
from tests.benchmarks.loading import Load, closed_loop, get, post
from tests.benchmarks.questions import body, rotated
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

HELLO = get("/")
_TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Loaded:
    """A server under load: CPU seconds of an answer and answers a second, one entry a round."""

    server: Server
    requests: Callable[[], list[bytes]]
    cpu_seconds: list[float] = field(default_factory=list)
    per_second: list[float] = field(default_factory=list)

    def load(self, *, counts: bool) -> Load:
        requests, before = self.requests(), self.server.cpu_seconds()
        load = closed_loop(self.server.port, requests)
        if counts:
            spent = tick_at_least(self.server.cpu_seconds() - before)
            self.cpu_seconds.append(spent / len(requests))
            self.per_second.append(load.per_second)
        return load


def tick_at_least(seconds: float) -> float:
    """CPU seconds that may have ended within the tick that the kernel counts in."""
    return max(seconds, _TICK_SECONDS)


def measure(place: Workplace) -> list[Figure]:
    first, pinned = post("/fit", body(place.questions[0])), servers.can_pin()
    sqlite_url, postgresql_url = place.sqlite_url, place.postgresql_url
    with ExitStack() as stack:
        running = (
            stack.enter_context(servers.bare("bare_flask", 1, HELLO, pinned=pinned)),
            stack.enter_context(servers.service(sqlite_url, 1, first, pinned=pinned)),
            stack.enter_context(servers.service(postgresql_url, 1, first, pinned=pinned)),
        )
        stack.enter_context(servers.on_core(servers.CLIENT_CORE if pinned else None))
        bare = Loaded(running[0], lambda: [HELLO] * place.effort.asked)
        sqlite, postgresql = (Loaded(server, fit_requests(place)) for server in running[1:])
        place.say("over HTTP: /fit on SQLite, on PostgreSQL and a bare view in turn")
        for number in range(place.effort.rounds + 1):
            for loaded in (bare, sqlite, postgresql):
                loaded.load(counts=number > 0)
    return [
        microseconds("gunicorn: CPU of a bare Flask JSON view", median(bare.cpu_seconds)),
        microseconds("gunicorn: CPU of /fit", median(sqlite.cpu_seconds)),
        _ratio("gunicorn: CPU of /fit, to the bare view", sqlite.cpu_seconds, bare.cpu_seconds, 2.4),
        _ratio("gunicorn: CPU of /fit on PostgreSQL, to SQLite", postgresql.cpu_seconds, sqlite.cpu_seconds, 1.1),
        _ratio("gunicorn: requests a second of the bare view, to /fit", bare.per_second, sqlite.per_second),
    ]


def fit_requests(place: Workplace) -> Callable[[], list[bytes]]:
    """Requests for one round after another, other questions each time."""
    slices = rotated(place.questions, place.effort.asked)
    return lambda: [post("/fit", body(asked)) for asked in next(slices)]


def _ratio(name: str, costly: list[float], cheap: list[float], bar: float | None = None) -> Figure:
    return Figure(name, median(a / b for a, b in zip(costly, cheap, strict=True)), "x", bar)
