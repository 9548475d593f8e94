"""Calling an application without a socket, and the CPU time that it takes."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

from flask import Flask
from werkzeug.test import EnvironBuilder

from service.api.services import services_of
from service.app import create_app
from service.settings import Settings
from tests.benchmarks.workplace import keeper_of

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication, WSGIEnvironment


_NO_HEADERS: Mapping[str, str] = {}


@dataclass(slots=True)
class Contender:
    """Something that is measured: `batch` makes one round's work, which is run and timed as a whole."""

    batch: Callable[[], Callable[[], int]]
    """Builds a round; what it returns does the work and returns how many times."""
    seconds: list[float] = field(default_factory=list)
    """CPU time of each, one entry a round."""

    @property
    def best(self) -> float:
        return min(self.seconds)


def interleaved(contenders: Sequence[Contender], rounds: int) -> None:
    """Run each in turn, round after round: the machine's drift hits all alike. The first round only warms up."""
    for number in range(rounds + 1):
        for contender in contenders:
            work = contender.batch()
            gc.collect()
            started = process_time()
            done = work()
            spent = process_time() - started
            if number:
                contender.seconds.append(spent / done)


def asks(app: "WSGIApplication", path: str, bodies: Callable[[], Sequence[bytes]], expected: str) -> Contender:
    """POST each body; the status of every answer is checked, outside the time."""

    def batch() -> Callable[[], int]:
        environs = [_posted(path, body) for body in bodies()]
        return lambda: _called(app, environs, expected)

    return Contender(batch)


def gets(
    app: "WSGIApplication", path: str, count: int, expected: str = "200", headers: Mapping[str, str] = _NO_HEADERS
) -> Contender:
    """GET the same path so many times."""
    environ = EnvironBuilder(path=path, headers=headers.items()).get_environ()

    def batch() -> Callable[[], int]:
        environs = [dict(environ) for _ in range(count)]
        return lambda: _called(app, environs, expected)

    return Contender(batch)


@contextmanager
def application(database_url: str) -> Iterator[Flask]:
    """The service as it runs by default, its log going nowhere."""
    with keeper_of(database_url) as keeper, Path(os.devnull).open("w") as nowhere, redirect_stdout(nowhere):
        keeper.start()
        keeper.refresh()
        app = create_app(Settings(database_url=database_url), keeper)
        try:
            yield app
        finally:
            services_of(app).engine.dispose()


def _posted(path: str, body: bytes) -> "WSGIEnvironment":
    environ = dict(_POST_ENVIRON)
    environ.update(PATH_INFO=path, CONTENT_LENGTH=str(len(body)))
    environ["wsgi.input"] = BytesIO(body)
    return environ


_POST_ENVIRON = EnvironBuilder(method="POST", content_type="application/json").get_environ()


def _called(app: "WSGIApplication", environs: "Sequence[WSGIEnvironment]", expected: str) -> int:
    statuses: set[str] = set()
    for environ in environs:
        answer = app(environ, lambda status, _headers, _exc_info=None: statuses.add(status))  # type: ignore[arg-type]
        b"".join(answer)
        close = getattr(answer, "close", None)
        if close is not None:
            close()
    if any(not status.startswith(expected) for status in statuses):
        raise RuntimeError(f"answered {statuses}, expected {expected}")
    return len(environs)
