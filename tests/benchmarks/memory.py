"""Memory of a worker once it has answered: its proportional share (PSS), against a worker of a bare Flask view.

One server at a time, so that none lends pages to another. All load the application before they fork.
"""

from contextlib import AbstractContextManager

from tests.benchmarks import servers
from tests.benchmarks.figures import Figure, mebibytes, ratio
from tests.benchmarks.loading import closed_loop, post
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.questions import body
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

MANY_WORKERS = 4
CONNECTIONS = 16
MOST_TRIES = 8


def measure(place: Workplace) -> list[Figure]:
    questions = [post("/fit", body(asked)) for asked in place.questions[: 2 * place.effort.asked]]
    place.say(f"memory: one worker of a bare view, one and {MANY_WORKERS} of the service")
    sqlite_url = place.sqlite_url
    bare, bare_tree = _sizes(servers.bare("bare_flask", 1, HELLO), [HELLO] * len(questions))
    one, one_tree = _sizes(servers.service(sqlite_url, 1, questions[0]), questions)
    _, many_tree = _sizes(servers.service(sqlite_url, MANY_WORKERS, questions[0]), questions)
    return [
        mebibytes("memory: PSS of a worker", one),
        mebibytes("memory: PSS of a bare Flask worker", bare),
        ratio("memory: PSS of a worker, to a bare Flask worker", one, bare, 1.8),
        ratio("memory: PSS of master and worker, to bare Flask", one_tree, bare_tree),
        mebibytes("memory: PSS of each further worker", (many_tree - one_tree) / (MANY_WORKERS - 1), 25),
    ]


def _sizes(starting: AbstractContextManager[Server], requests: list[bytes]) -> tuple[float, float]:
    """PSS of a worker and of the whole tree, once every worker has answered."""
    with starting as server:
        ask_every_worker(server, requests)
        return server.worker_pss_bytes(), server.pss_bytes()


def ask_every_worker(server: Server, requests: list[bytes]) -> None:
    """Ask until no worker has done less than a quarter of what another did: which one takes a connection is chance."""
    before = server.worker_cpu_seconds()
    for _ in range(MOST_TRIES):
        closed_loop(server.port, requests, connections=CONNECTIONS)
        spent = [now - before.get(pid, 0.0) for pid, now in server.worker_cpu_seconds().items()]
        if 4 * min(spent) >= max(spent):
            return
