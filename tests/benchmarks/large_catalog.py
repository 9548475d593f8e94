"""A catalog of very many models: what quotes, lists and conditional answers cost on it, and what a worker keeps of it.

The same is asked of a catalog with a hundred models more than the files have, and of one with very many more.
"""

import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

from flask import Flask
from flask.testing import FlaskClient
from sqlalchemy import Engine

from service.api.services import services_of
from service.storage import calibrations
from service.storage.database import look
from service.storage.snapshot import SnapshotKeeper
from tests.benchmarks import installed
from tests.benchmarks.calling import Contender, application, asks, gets, interleaved
from tests.benchmarks.figures import Figure, microseconds, ratio
from tests.benchmarks.many_models import databases_with
from tests.benchmarks.questions import body, rotated
from tests.benchmarks.statements import counted
from tests.benchmarks.workplace import Workplace, keeper_of

FEW = 100
DEEP_PAGE, PAGE_ENTRIES, MOST_ENTRIES = 10_000, 10, 500
KIBIBYTE = 1024
PATHS = {
    "a quote": "/fit?model=llama-2-7b&gpu=a100-sxm-80gb&context_tokens=4096",
    "a model": "/models/llama-2-7b",
    "a GPU": "/gpus/a100-sxm-80gb",
    "a list": "/models?limit=50",
}
LISTS = {"a list": "/models?", "a filtered list": "/models?has_reader=true&min_parameters=1&"}


def measure(place: Workplace) -> list[Figure]:
    with databases_with((FEW, place.effort.models), place) as (few, many):
        return [*_times(place, few, many), _growth(place, few, many), _tick(many)]


def _times(place: Workplace, few: str, many: str) -> list[Figure]:
    # Fewer of each than elsewhere: a page costs as much as several quotes.
    count, page = max(1, place.effort.asked // 5), min(DEEP_PAGE, place.effort.models // PAGE_ENTRIES)
    with ExitStack() as stack:
        small, large = (_settled(stack.enter_context(application(url))) for url in (few, many))
        fits = [_fits(app, place, 2 * count) for app in (small, large)]
        known = {what: _conditional((small, large), path, count) for what, path in PATHS.items()}
        pages = {what: [gets(large, one, count) for one in _pages(large, path, page)] for what, path in LISTS.items()}
        place.say("large catalog: quotes, 304s and pages on both catalogs in turn")
        interleaved([*fits, *_all(known.values()), *_all(pages.values())], place.effort.rounds)
    name = f"with {place.effort.models:,} models, to {FEW}"
    return [
        _told(f"/fit {name}", fits[1], fits[0], 1.1),
        *(_told(f"a 304 of {what} {name}", on[1], on[0], 1.1) for what, on in known.items()),
        *(_told(f"a 304 of {what}, to its 200", on[1], on[2], 0.5) for what, on in known.items()),
        *(_told(f"page {page:,} of {what}, to page 1", at[1], at[0], 2) for what, at in pages.items()),
        microseconds("large catalog: page 1 of a list", pages["a list"][0].best),
    ]


def _settled(app: Flask) -> Flask:
    """Wait until the timer's thread has gathered what it gathers once, and end it: what it does is told by `_tick`."""
    keeper = services_of(app).keeper
    if not isinstance(keeper, SnapshotKeeper):
        raise TypeError(f"the application's catalog is kept by a {type(keeper).__name__}")
    keeper.stop()
    return app


def _told(what: str, costly: Contender, cheap: Contender, bar: float) -> Figure:
    return ratio(f"large catalog: {what}", costly.best, cheap.best, bar)


def _fits(app: Flask, place: Workplace, count: int) -> Contender:
    slices = rotated(place.questions, count)
    return asks(app, "/fit", lambda: [body(question) for question in next(slices)], "200")


def _conditional(apps: Sequence[Flask], path: str, count: int) -> list[Contender]:
    """304s on each catalog, and 200s on the last."""
    tags = [app.test_client().get(path).headers["ETag"] for app in apps]
    matching = [gets(app, path, count, "304", {"If-None-Match": tag}) for app, tag in zip(apps, tags, strict=True)]
    return [*matching, gets(apps[-1], path, count)]


def _all(groups: object) -> list[Contender]:
    return [contender for group in groups for contender in group]  # type: ignore[attr-defined]


def _pages(app: Flask, path: str, number: int) -> tuple[str, str]:
    """The first page of a list and the one of that number, which is found by following the links of longer ones."""
    client, first = app.test_client(), f"{path}limit={PAGE_ENTRIES}"
    found, missing = first, PAGE_ENTRIES * (number - 1)
    while missing:
        limit = min(MOST_ENTRIES, missing)
        found = _next(client, found.replace(f"limit={PAGE_ENTRIES}", f"limit={limit}")).replace(
            f"limit={limit}", f"limit={PAGE_ENTRIES}"
        )
        missing -= limit
    return first, found


def _next(client: FlaskClient, path: str) -> str:
    return client.get(path).headers["Link"].removeprefix("<").partition(">")[0]


def _growth(place: Workplace, few: str, many: str) -> Figure:
    place.say("large catalog: a process that keeps each catalog")
    small, large = (_kept_bytes(url) for url in (few, many))
    more = place.effort.models - FEW
    return Figure("large catalog: what a worker grows by, a model", (large - small) / more / KIBIBYTE, "KiB", 4)


def _kept_bytes(url: str) -> int:
    command = [sys.executable, "-m", "tests.benchmarks.keeping", url]
    return int(subprocess.check_output(command, cwd=installed.ROOT, env=installed.environment()))


def _tick(url: str) -> Figure:
    """Looks of a refresh that finds nothing new, of which each reads one row and no more."""
    looks: list[str] = []

    def looking(database: Engine, query: str) -> tuple[Any, ...]:
        looks.append(query)
        return look(database, query)

    with keeper_of(url) as keeper:
        keeper.refresh()
        with counted() as asked, patch.object(calibrations, "look", looking):
            keeper.refresh()
    if asked != ["connection"] * len(looks):
        raise RuntimeError(f"a tick asks for more than it looks at: {asked}")
    return Figure("large catalog: rows that a tick without a change reads", len(looks), "", 1)
