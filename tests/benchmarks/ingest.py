"""What it costs to take measurements in over HTTP, row by row and by the thousand, new, repeated and not valid.

Bars are those of performance P12 to P14, P17 and P21. How it goes on beside many stored rows is measured in `learned`.
"""

import json
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any
from uuid import uuid4

from sqlalchemy import insert, text

from service.domain.measurement import Lookups, judge
from service.storage.database import begin_write, make_engine, writing
from service.storage.measurement_tables import MEASUREMENT
from service.storage.snapshot import Snapshot
from service.storage.tokens import Scope, create_token
from service.storage.uploads import new_row, now
from tests.benchmarks import servers
from tests.benchmarks.figures import Figure, ratio
from tests.benchmarks.loading import HOST, Load, closed_loop, get
from tests.benchmarks.over_http import tick_at_least
from tests.benchmarks.servers import Server
from tests.benchmarks.workplace import Workplace

AT_ONCE, UPLOADERS = 1000, 32
_ANSWER_BYTES = 160 << 10


@dataclass(frozen=True, slots=True)
class Desk:
    """A service on a database, and a token that may send to it."""

    server: Server
    token: str
    url: str

    def request(self, rows: Sequence[dict[str, Any]]) -> bytes:
        body = json.dumps({"items": rows}).encode()
        kind = f"Authorization: Bearer {self.token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
        return f"POST /measurements HTTP/1.1\r\nHost: {HOST}\r\n{kind}\r\n\r\n".encode() + body

    def send(self, uploads: Sequence[bytes], connections: int = 1) -> tuple[Load, float]:
        """Send them, every one answered 200, and the CPU seconds that they took the server."""
        before = self.server.cpu_seconds()
        load = closed_loop(self.server.port, uploads, connections)
        return load, tick_at_least(self.server.cpu_seconds() - before)


def measure(place: Workplace) -> list[Figure]:
    figures: list[Figure] = []
    for name, url in (("SQLite", place.sqlite_url), ("PostgreSQL", place.postgresql_url)):
        place.say(f"ingest: uploads of 1 and of {AT_ONCE:,} rows, {name}")
        with _desk(url) as desk:
            figures += _by_size(name, desk, place)
            figures += _not_valid(name, desk, place)
            if name == "SQLite":
                place.say(f"ingest: {UPLOADERS} that send single rows at once, {name}")
                figures.append(_at_once(desk, place.effort.asked))
    return figures


def _by_size(name: str, desk: Desk, place: Workplace) -> Iterator[Figure]:
    # The first upload of a server also learns names and reads the catalog.
    desk.send([desk.request(_rows(1))])
    singles = [desk.request([row]) for row in _rows(place.effort.asked // 2)]
    uploads = [desk.request(rows) for rows in _uploads(place)]
    _, single = desk.send(singles)
    fresh, repeated, spent = [], [], 0.0
    plain = []
    # In turn, and of each the quickest: whatever else the machine does hits all alike.
    for upload, batch in zip(uploads, _uploads(place), strict=True):
        first, cpu = desk.send([upload])
        again, _ = desk.send([upload])
        fresh.append(first.seconds)
        repeated.append(again.seconds)
        plain.append(_plain(desk.url, list(_stored(batch, place.catalog))))
        spent += cpu
    by_thousand, by_one = spent / len(uploads) / AT_ONCE, single / len(singles)
    yield ratio(f"ingest: CPU a row by the thousand, to row by row, {name}", by_thousand, by_one, 1 / 12)
    yield ratio(f"ingest: time of an upload, to plain inserts, {name}", min(fresh), min(plain), 1 / 0.4)
    yield ratio(f"ingest: time of a repeated upload, to a new one, {name}", min(repeated), min(fresh), 1)
    yield Figure(f"ingest: rows a second, {name}", AT_ONCE / min(fresh), "/s")


def _uploads(place: Workplace) -> list[list[dict[str, Any]]]:
    return [_rows(AT_ONCE) for _ in range(2 * place.effort.rounds)]


def _plain(url: str, batch: Sequence[dict[str, Any]]) -> float:
    """Seconds of as many rows by SQLAlchemy's Core in a transaction."""
    engine = make_engine(url)
    with engine.connect() as connection:
        connection.execute(text("SELECT 1"))
        connection.rollback()
        started = perf_counter()
        with begin_write(connection).begin():
            connection.execute(insert(MEASUREMENT), batch)
        took = perf_counter() - started
    engine.dispose()
    return took


def _stored(rows: Sequence[dict[str, Any]], catalog: Snapshot) -> Iterator[dict[str, Any]]:
    received_at, lookups = now(), Lookups(catalog)
    more = {"received_at": received_at, "token_id": "bench", "catalog_revision": 1, "clock_skew_seconds": None}
    for row in rows:
        yield new_row(row, json.dumps(row), judge(row, received_at, lookups))._asdict() | more


def _not_valid(name: str, desk: Desk, place: Workplace) -> Iterator[Figure]:
    """As many rows of which none is valid, in two ways each; the longest answer counts."""
    valid = [desk.request(rows) for rows in _uploads(place)]
    wrong = [desk.request([{**row, "values": {}, "x" * 100: 1} for row in rows]) for rows in _uploads(place)]
    _, good = desk.send(valid)
    _, bad = desk.send(wrong)
    yield ratio(f"ingest: CPU of rows that are not valid, to valid ones, {name}", bad, good, 2)
    longest = len(_answered(desk, wrong[0]))
    yield Figure(f"ingest: answer to a thousand of them, {name}", longest / 1024, "KiB", _ANSWER_BYTES / 1024)


def _answered(desk: Desk, request: bytes) -> bytes:
    with socket.create_connection((HOST, desk.server.port), 30) as connection:
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n", 1))
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def _at_once(desk: Desk, count: int) -> Figure:
    """How much longer the unlucky wait than most; closed_loop ends where one is not answered 200."""
    load, _ = desk.send([desk.request([row]) for row in _rows(count)], UPLOADERS)
    slow, usual = load.percentile(0.99), load.percentile(0.5)
    return ratio(f"ingest: p99 to p50 of {UPLOADERS} that send single rows at once, SQLite", slow, usual, 20)


def _rows(count: int) -> list[dict[str, Any]]:
    """Rows of a fleet: some cards, each with what its probe reports."""
    return [
        {
            "id": str(uuid4()),
            "probe_id": f"7f6d1f8e-2f0e-4a53-8f0b-{number % 50:012x}",
            "kind": "memory_bandwidth",
            "measured_at": "2026-11-01T10:00:00Z",
            "gpu": {"name": "NVIDIA H100 80GB HBM3", "driver": "570.86.15", "count": 1},
            "software": {"probe": "0.1.0", "torch": "2.9.1"},
            "values": {"bytes_per_second": 2.9e12 - number, "access": "read"},
        }
        for number in range(count)
    ]


@contextmanager
def _desk(url: str) -> Iterator[Desk]:
    with ExitStack() as stack:
        engine = make_engine(url)
        stack.callback(engine.dispose)
        with writing(engine) as connection:
            token = create_token(connection, "bench", [Scope.MEASUREMENTS_WRITE], "bench", None)[1]
        # Learning is another process, which would take its time of a small machine now and not then.
        yield Desk(stack.enter_context(servers.service(url, 1, get("/livez"), learns=False)), token, url)
