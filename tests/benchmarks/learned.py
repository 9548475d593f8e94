"""What many stored measurements cost those who read what was learned, who page through rows and who upload more.

`python -m tests.benchmarks learned --stored 10000000` fills PostgreSQL so far, and SQLite up to a million, in minutes.
"""

from collections.abc import Iterable, Iterator
from time import perf_counter

from flask import Flask
from sqlalchemy import Connection, text

from service.api.paging import make_cursor
from service.api.services import services_of
from service.storage.learning import learn_some
from service.storage.tokens import Scope
from tests.api.desk import bearer
from tests.benchmarks.calling import application
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.workplace import Workplace
from tests.fleet import GIB, H100, MODEL, RELEASE, fleet, memory_row

FEW_SHARE = 100
FEW, MOST_IN_SQLITE = 10_000, 1_000_000
"""The few rows, once there are many beside them; and what one file is meant to hold."""

PATHS = {
    "/calibrations": "/calibrations?limit=200",
    "/accuracy": "/accuracy",
    "a calibrated /fit": f"/fit?model={MODEL}&gpu={H100}&engine=vllm&engine_version={RELEASE}&context_tokens=8192",
}
_PAGE, _DEEP = 50, 10_000
_UPLOADS, _UPLOADED = 8, 1000
# Of the rows that are there PostgreSQL may insert 0.6 as many a second, SQLite 0.4 (performance P15).
_SLOWER = {"PostgreSQL": 1 / 0.6, "SQLite": 1 / 0.4}
_AT_ONCE = 1_000_000
_COLUMNS = (
    "probe_id, kind, received_at, token_id, gpu_name, model_name, engine, verdict, detail,"
    " catalog_revision, clock_skew_seconds, digest, content"
)
_COPIES = {
    "postgresql": "INSERT INTO measurement (id, measured_at, {columns}) SELECT gen_random_uuid(), measured_at - i *"
    " interval '1 second', {columns} FROM (SELECT * FROM measurement WHERE kind = 'device_memory' ORDER BY seq LIMIT 1)"
    " AS one, generate_series(CAST(:first AS bigint), CAST(:last AS bigint)) AS i",
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT :first UNION ALL SELECT i + 1 FROM n WHERE i < :last) INSERT INTO"
    " measurement (id, measured_at, {columns}) SELECT lower(hex(randomblob(16))), strftime('%Y-%m-%d %H:%M:%f',"
    " measured_at, -i || ' seconds') || '000', {columns} FROM (SELECT * FROM measurement WHERE kind = 'device_memory'"
    " ORDER BY seq LIMIT 1) AS one, n",
}


def measure(place: Workplace) -> list[Figure]:
    stored = place.effort.stored
    return [
        figure
        for name, url, many in (
            ("SQLite", place.sqlite_url, min(stored, MOST_IN_SQLITE)),
            ("PostgreSQL", place.postgresql_url, stored),
        )
        for figure in _grown(name, url, min(FEW, many // FEW_SHARE), many, place)
    ]


def _grown(name: str, url: str, few: int, many: int, place: Workplace) -> Iterator[Figure]:
    with application(url) as app:
        place.say(f"learned: a fleet teaches, {name}")
        _teach(app)
        _fill(app, 0, few)
        asked = place.effort.asked // 2
        at_few, uploading = _quickest(app, PATHS.values(), asked), _uploading(app)
        place.say(f"learned: {many:,} rows, {name}")
        _fill(app, few, many)
        at_many = _quickest(app, PATHS.values(), asked)
        beside = f"with {many:,} rows, to {few:,}, {name}"
        for what, path in PATHS.items():
            yield ratio(f"learned: {what} {beside}", at_many[path], at_few[path], 1.5)
        yield ratio(f"learned: upload {beside}", _uploading(app), uploading, _SLOWER[name])
        depth = min(_DEEP, many // _PAGE - 1)
        first, deep = f"/measurements?limit={_PAGE}", _page_after(app, depth * _PAGE)
        found = _quickest(app, (first, deep), asked)
        yield ratio(f"learned: page {depth:,} of /measurements, to the first, {name}", found[deep], found[first], 2)


def _teach(app: Flask) -> None:
    client, headers, having = app.test_client(), bearer(app, Scope.MEASUREMENTS_WRITE), services_of(app)
    rows = [*fleet(1.0 * GIB), memory_row(1, 84_929_347_584)]
    answer = client.post("/measurements", json={"items": rows}, headers=headers)
    if answer.status_code != 200:
        raise RuntimeError(answer.text)
    learn_some(having.engine, having.keeper.current())
    having.keeper.refresh()


def _fill(app: Flask, first: int, last: int) -> None:
    """So many rows more, like one of those in the table, past everything that judges and learns.

    Indexes of PostgreSQL are made anew afterwards, which is many times as fast and leaves the same.
    """
    engine = services_of(app).engine
    with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            _copy(connection, first, last)
            return
        connection.execute(text("SET LOCAL statement_timeout = 0"))
        connection.execute(text("SET LOCAL maintenance_work_mem = '512MB'"))
        indexes = connection.execute(text(_INDEXES)).all()
        for index, _ in indexes:
            connection.execute(text(f"DROP INDEX {index}"))
        connection.execute(text("ALTER TABLE measurement DROP CONSTRAINT uq_measurement_id"))
        _copy(connection, first, last)
        connection.execute(text("ALTER TABLE measurement ADD CONSTRAINT uq_measurement_id UNIQUE (id)"))
        for _, made in indexes:
            connection.execute(text(made))
        connection.execute(text("ANALYZE measurement"))


_INDEXES = "SELECT indexname, indexdef FROM pg_indexes WHERE tablename = 'measurement' AND indexname LIKE 'ix_%'"


def _copy(connection: Connection, first: int, last: int) -> None:
    statement = text(_COPIES[connection.dialect.name].format(columns=_COLUMNS))
    for begin in range(first, last, _AT_ONCE):
        connection.execute(statement, {"first": begin + 1, "last": min(begin + _AT_ONCE, last)})


def _quickest(app: Flask, paths: Iterable[str], times: int) -> dict[str, float]:
    """The quickest of so many answers of each, by the clock: the database works in another process.

    Hundreds of them, in turn: what else a machine does must leave one of each alone.
    """
    client, best = app.test_client(), dict.fromkeys(paths, float("inf"))
    for _ in range(max(3, times)):
        for path in best:
            started = perf_counter()
            answer = client.get(path)
            best[path] = min(best[path], perf_counter() - started)
            if answer.status_code != 200:
                raise RuntimeError(answer.text)
    return best


def _uploading(app: Flask) -> float:
    """The quickest of some uploads of new rows."""
    client, headers, best = app.test_client(), bearer(app, Scope.MEASUREMENTS_WRITE), float("inf")
    for number in range(_UPLOADS):
        rows = [
            memory_row(2, 84_929_347_584, number=number * _UPLOADED + n, driver=headers["Authorization"][-6:])
            for n in range(_UPLOADED)
        ]
        started = perf_counter()
        answer = client.post("/measurements", json={"items": rows}, headers=headers)
        best = min(best, perf_counter() - started)
        if answer.status_code != 200 or answer.get_json()["counts"]["accepted"] != _UPLOADED:
            raise RuntimeError(answer.text[:500])
    return best


def _page_after(app: Flask, rows: int) -> str:
    """The page that follows so many rows, found as nobody else would: by counting."""
    engine = services_of(app).engine
    order = "SELECT measured_at, seq FROM measurement ORDER BY measured_at DESC, seq DESC LIMIT 1 OFFSET :rows"
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        moment, seq = connection.execute(text(order), {"rows": rows}).one()
    at = f"{moment}+00:00".replace(" ", "T") if isinstance(moment, str) else moment.isoformat()
    cursor = make_cursor("/measurements", {"limit": _PAGE}, f"{at}\n{seq}")
    return f"/measurements?limit={_PAGE}&cursor={cursor}"
