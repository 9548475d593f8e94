"""From nothing to the first answer, and what importing costs: best of several starts, in turn.

Beside them the same of the libraries alone, which no code of the service can be quicker than.
"""

import resource
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager

from tests.benchmarks import installed, servers
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.loading import post
from tests.benchmarks.over_http import HELLO
from tests.benchmarks.questions import body
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

# What the installed command runs, without needing it installed.
HELP = "from service.cli import main; main(['--help'], prog_name='kvquote-server')"
# As service/wsgi.py imports them.
LIBRARIES = "import gc; gc.disable(); import tests.benchmarks.bare_libraries"


def measure(place: Workplace) -> list[Figure]:
    first, database_url = post("/fit", body(place.questions[0])), place.sqlite_url
    place.say("start: the service, bare applications and imports in turn")
    service, libraries, bare, nothing, flask, libraries_alone, application, command = best(
        place.effort.starts,
        lambda: _first_answer(servers.service(database_url, 1, first)),
        lambda: _first_answer(servers.bare("bare_libraries", 1, HELLO)),
        lambda: _first_answer(servers.bare("bare_wsgi", 1, HELLO)),
        lambda: cpu_of(installed.python("pass"), database_url),
        lambda: cpu_of(installed.python("import flask"), database_url),
        lambda: cpu_of(installed.python(LIBRARIES), database_url),
        lambda: cpu_of(installed.python("import service.wsgi"), database_url),
        lambda: cpu_of(installed.python(HELP), database_url),
    )
    return [
        Figure("start: to the first answer of /fit", service * 1e3, "ms"),
        ratio("start: to the first answer, to a bare WSGI callable", service, bare, 5),
        ratio("start: the same of its libraries alone", libraries, bare),
        Figure("start: CPU of `import flask`", flask * 1e3, "ms"),
        ratio("start: CPU of importing the service, to `import flask`", application, flask, 4),
        ratio("start: the same of its libraries alone", libraries_alone, flask),
        ratio("start: the same without the interpreter's own start", application - nothing, flask - nothing),
        ratio("start: CPU of `kvquote-server --help`, to `import flask`", command, flask, 2),
    ]


def best(rounds: int, *measures: Callable[[], float]) -> list[float]:
    """The least of each; the first round, which reads from the disk, only counts where no other is asked for."""
    seen = [[measure() for measure in measures] for _ in range(rounds + 1)]
    return [min(column) for column in zip(*(seen[1:] or seen), strict=True)]


def _first_answer(starting: AbstractContextManager[Server]) -> float:
    with starting as server:
        return server.first_answer_seconds


def cpu_of(command: list[str], database_url: str, **more: str) -> float:
    """CPU seconds of a command that ends by itself; `more` are variables of its environment."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**installed.environment(), "DATABASE_URL": database_url, **more}
    subprocess.run(command, cwd=installed.ROOT, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
