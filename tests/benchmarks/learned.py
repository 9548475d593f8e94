"""What many stored measurements cost those who only read what was learned: nothing, or a figure above its bar."""

from collections.abc import Iterator
from time import perf_counter

from flask import Flask
from sqlalchemy import text

from service.api.services import services_of
from service.storage.learning import learn_some
from service.storage.tokens import Scope
from tests.api.desk import bearer
from tests.benchmarks.calling import application
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.workplace import Workplace
from tests.fleet import GIB, H100, MODEL, RELEASE, fleet

FEW_SHARE = 100
"""The many rows to the few."""

PATHS = {
    "/calibrations": "/calibrations?limit=200",
    "/accuracy": "/accuracy",
    "a calibrated /fit": f"/fit?model={MODEL}&gpu={H100}&engine=vllm&engine_version={RELEASE}&context_tokens=8192",
}
_TOLD = "/accuracy"
_COLUMNS = (
    "probe_id, kind, measured_at, received_at, token_id, gpu_name, model_name, engine, verdict, detail,"
    " catalog_revision, clock_skew_seconds, digest, content"
)
_COPIES = {
    "postgresql": "INSERT INTO measurement (id, {columns}) SELECT gen_random_uuid(), {columns} FROM (SELECT * FROM"
    " measurement ORDER BY seq LIMIT 1) AS one, generate_series(1, :count)",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < :count) INSERT INTO measurement"
    " (id, {columns}) SELECT lower(hex(randomblob(16))), {columns} FROM (SELECT * FROM measurement ORDER BY seq"
    " LIMIT 1) AS one, n",
}


def measure(place: Workplace) -> list[Figure]:
    many = place.effort.rows
    return [
        figure
        for name, url in (("SQLite", place.sqlite_url), ("PostgreSQL", place.postgresql_url))
        for figure in _grown(name, url, many // FEW_SHARE, many, place)
    ]


def _grown(name: str, url: str, few: int, many: int, place: Workplace) -> Iterator[Figure]:
    with application(url) as app:
        place.say(f"learned: a fleet teaches, {name}")
        _teach(app)
        _copy(app, few)
        at_few = {what: _seconds(app, path, place.effort.asked // 2) for what, path in PATHS.items()}
        place.say(f"learned: {many:,} rows, {name}")
        _copy(app, many - few)
        for what, path in PATHS.items():
            seconds = _seconds(app, path, place.effort.asked // 2)
            bar = None if what == _TOLD else 1.5
            yield ratio(f"learned: {what} with {many:,} rows, to {few:,}, {name}", seconds, at_few[what], bar)


def _teach(app: Flask) -> None:
    client, headers, having = app.test_client(), bearer(app, Scope.MEASUREMENTS_WRITE), services_of(app)
    answer = client.post("/measurements", json={"items": list(fleet(1.0 * GIB))}, headers=headers)
    if answer.status_code != 200:
        raise RuntimeError(answer.text)
    learn_some(having.sessions, having.keeper.current())
    having.keeper.refresh()


def _copy(app: Flask, count: int) -> None:
    """So many rows more, as they are in the table, past everything that judges and learns."""
    engine = services_of(app).engine
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text(_COPIES[engine.dialect.name].format(columns=_COLUMNS)), {"count": max(1, count)})


def _seconds(app: Flask, path: str, times: int) -> float:
    """The quickest of so many answers, by the clock: the database works in another process."""
    client, best = app.test_client(), float("inf")
    # Hundreds of them: what else a machine does must leave one of them alone.
    for _ in range(max(3, times)):
        started = perf_counter()
        answer = client.get(path)
        best = min(best, perf_counter() - started)
        if answer.status_code != 200:
            raise RuntimeError(answer.text)
    return best
