"""From nothing to the first answer, and what importing costs: best of several starts, in turn."""

import resource
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.benchmarks import servers
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.loading import post
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.questions import body
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

# What the installed command runs, without needing it installed.
COMMAND = (sys.executable, "-m", "service.cli")


def measure(place: Workplace) -> list[Figure]:
    first, database_url = post("/fit", body(place.questions[0])), place.sqlite_url
    place.say("start: the service, bare applications and imports in turn")
    service, bare, nothing, flask, application, command = best(
        place.effort.starts,
        lambda: _first_answer(servers.service(database_url, 1, first)),
        lambda: _first_answer(servers.bare("bare_wsgi", 1, HELLO)),
        lambda: cpu_of([sys.executable, "-c", "pass"], database_url),
        lambda: cpu_of([sys.executable, "-c", "import flask"], database_url),
        lambda: cpu_of([sys.executable, "-c", "import service.wsgi"], database_url),
        lambda: cpu_of([*COMMAND, "--help"], database_url),
    )
    return [
        Figure("start: to the first answer of /fit", service * 1e3, "ms"),
        ratio("start: to the first answer, to a bare WSGI callable", service, bare, 5),
        Figure("start: CPU of `import flask`", flask * 1e3, "ms"),
        ratio("start: CPU of importing the service, to `import flask`", application, flask, 4),
        ratio("start: the same without the interpreter's own start", application - nothing, flask - nothing),
        ratio("start: CPU of `kvquote-server --help`, to `import flask`", command, flask, 2),
    ]


def best(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The least of each; the first round, which may write byte code, only counts where no other is asked for."""
    seen = [[measure() for measure in measures] for _ in range(rounds + 1)]
    return [min(column) for column in zip(*(seen[1:] or seen), strict=True)]


def _first_answer(starting: AbstractContextManager[Server]) -> float:
    with starting as server:
        return server.first_answer_seconds


def cpu_of(command: list[str], database_url: str, **more: str) -> float:
    """CPU seconds of a command that ends by itself; `more` are variables of its environment."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**servers.clean_environment(), "DATABASE_URL": database_url, **more}
    subprocess.run(command, cwd=servers.ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
