"""Memory of a worker once it has answered: its proportional share (PSS), against a worker of a bare Flask view.

One server at a time, so that none lends pages to another. All load the application before they fork. What a further
worker takes is the difference between four and two: one alone loads less ahead, so it would be counted to the others.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from time import sleep

import psutil

from tests.benchmarks import servers
from tests.benchmarks.figures import Figure, mebibytes, ratio
from tests.benchmarks.loading import closed_loop, post
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.questions import body
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

SOME_WORKERS, MANY_WORKERS = 2, 4
CONNECTIONS = 16
_HEARTBEAT_SECONDS = 1.1


def measure(place: Workplace) -> list[Figure]:
    questions = [post("/fit", body(asked)) for asked in place.questions[: 2 * place.effort.asked]]
    place.say(
        f"memory: a bare view, with and without libraries; the service with 1, {SOME_WORKERS}, {MANY_WORKERS} workers"
    )
    sqlite_url = place.sqlite_url
    bare, bare_tree = _sizes(servers.bare("bare_flask", 1, HELLO), [HELLO] * len(questions))
    libraries, libraries_tree = _sizes(servers.bare("bare_libraries", 1, HELLO), [HELLO] * len(questions))
    one, one_tree = _sizes(servers.service(sqlite_url, 1, questions[0]), questions)
    _, some_tree = _sizes(servers.service(sqlite_url, SOME_WORKERS, questions[0]), questions)
    _, many_tree = _sizes(servers.service(sqlite_url, MANY_WORKERS, questions[0]), questions)
    return [
        mebibytes("memory: PSS of a worker", one),
        mebibytes("memory: PSS of a bare Flask worker", bare),
        ratio("memory: PSS of a worker, to a bare Flask worker", one, bare, 1.8),
        ratio("memory: the same of its libraries alone", libraries, bare),
        ratio("memory: PSS of master and worker, to bare Flask", one_tree, bare_tree),
        ratio("memory: the same of its libraries alone", libraries_tree, bare_tree),
        mebibytes("memory: PSS of each further worker", (many_tree - some_tree) / (MANY_WORKERS - SOME_WORKERS), 25),
    ]


def _sizes(starting: AbstractContextManager[Server], requests: list[bytes]) -> tuple[float, float]:
    """PSS of a worker and of the whole tree, once every worker has answered."""
    with starting as server:
        ask_every_worker(server, requests)
        return server.worker_pss_bytes(), server.pss_bytes()


def ask_every_worker(server: Server, requests: list[bytes]) -> None:
    """Ask each worker everything: the others are stopped meanwhile, since which one takes a connection is chance."""
    workers = server.workers()
    for asked in workers:
        with stopped([worker for worker in workers if worker != asked]):
            closed_loop(server.port, requests, connections=CONNECTIONS)
        # Each tells the master that it lives, which would replace one that it did not hear of for long.
        sleep(_HEARTBEAT_SECONDS)


@contextmanager
def stopped(processes: Sequence[psutil.Process]) -> Iterator[None]:
    """Let processes stand still for a while."""
    try:
        for process in processes:
            process.suspend()
        yield
    finally:
        for process in processes:
            process.resume()
