"""SQL on the path of a quote: each use of a connection and each statement in the thread that answers.

The catalog's timer runs in a thread of its own, and reads one row a second, past what an engine counts as statements:
so uses of connections are counted too, without which there is no way to a database.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident

from sqlalchemy import Engine, Pool, event

from service.api.services import services_of
from tests.benchmarks.calling import application, asks
from tests.benchmarks.figures import Figure
from tests.benchmarks.questions import Asked, body
from tests.benchmarks.workplace import Workplace


def measure(place: Workplace) -> list[Figure]:
    urls = {"SQLite": place.sqlite_url, "PostgreSQL": place.postgresql_url}
    asked = place.questions[: place.effort.asked]
    place.say(f"SQL: counting over {len(asked):,} questions on each database")
    return [
        Figure(f"sql: statements of {2 * len(asked):,} answers, {name}", _statements(url, asked), "", 0)
        for name, url in urls.items()
    ]


def _statements(database_url: str, asked: list[Asked]) -> int:
    with application(database_url) as app:
        with counted() as executed:
            for path in ("/fit", "/traffic"):
                asks(app, path, lambda: [body(question) for question in asked], "200").batch()()
        with counted() as control:
            services_of(app).keeper.refresh()
    if not control:
        raise RuntimeError("a refresh of the catalog used no connection: the count cannot be right")
    return len(executed)


@contextmanager
def counted() -> Iterator[list[str]]:
    """What this thread asks of any database meanwhile: `connection` for each use of one, and statements."""
    asked: list[str] = []
    answering = get_ident()

    def use(*_about: object) -> None:
        if get_ident() == answering:
            asked.append("connection")

    def execute(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        if get_ident() == answering:
            asked.append(statement)

    event.listen(Pool, "checkout", use)
    event.listen(Engine, "before_cursor_execute", execute)
    try:
        yield asked
    finally:
        event.remove(Pool, "checkout", use)
        event.remove(Engine, "before_cursor_execute", execute)
