"""What the SDK adds to the HTTP library under it: CPU of a question, and of importing it."""

import sys
import tempfile
from collections.abc import Callable

import requests

from kvquote_client import Client
from tests.benchmarks import installed, servers
from tests.benchmarks.calling import Contender, interleaved
from tests.benchmarks.figures import Figure, microseconds, ratio
from tests.benchmarks.loading import HOST, post
from tests.benchmarks.questions import Asked, body, rotated
from tests.benchmarks.starting import best, cpu_of
from tests.benchmarks.workplace import Workplace

_SOURCES = installed.ROOT / "clients" / "src"


def measure(place: Workplace) -> list[Figure]:
    return [*_asking(place), *_importing(place)]


def _asking(place: Workplace) -> list[Figure]:
    first = post("/fit", body(place.questions[0]))
    with servers.service(place.sqlite_url, 1, first) as server:
        url = f"http://{HOST}:{server.port}"
        with requests.Session() as session, Client(url) as client:
            # As the client sets it for this address: what is compared is the same call.
            session.trust_env = False
            bare = _asks(place, lambda asked: session.post(f"{url}/fit", json=asked, timeout=30).json())
            typed = _asks(place, lambda asked: client.fit(**asked))
            place.say("client: Client.fit and requests.Session.post in turn")
            interleaved([bare, typed], place.effort.rounds)
    return [
        microseconds("client: CPU of requests.Session.post(…).json()", bare.best),
        ratio("client: CPU of Client.fit, to the same call of requests.Session", typed.best, bare.best, 1.3),
    ]


def _asks(place: Workplace, ask: Callable[[Asked], object]) -> Contender:
    slices = rotated(place.questions, max(1, place.effort.asked // 2))

    def batch() -> Callable[[], int]:
        questions = next(slices)
        return lambda: len([ask(question) for question in questions])

    return Contender(batch)


def _importing(place: Workplace) -> list[Figure]:
    place.say("client: imports in turn")
    with tempfile.TemporaryDirectory(prefix="kvquote-bytecode-") as folder:
        # Byte code is kept, as it is of what is installed, whatever the environment says.
        settings = {"PYTHONPATH": str(_SOURCES), "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}

        def importing(what: str) -> Callable[[], float]:
            return lambda: cpu_of([sys.executable, "-c", what], place.sqlite_url, **settings)

        wanted = ("pass", "import requests", "import kvquote_client")
        nothing, http, client = best(place.effort.starts, *map(importing, wanted))
    return [
        Figure("client: CPU of `import requests`", http * 1e3, "ms"),
        ratio("client: CPU of `import kvquote_client`, to `import requests`", client, http, 1.3),
        ratio("client: the same without the interpreter's own start", client - nothing, http - nothing),
    ]
