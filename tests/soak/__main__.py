"""Is anything lost? `python -m tests.soak [FAULT ...]`: faults under load, and what the database holds afterwards.

After each: every row that was answered is there once, what could not be served was a 503 with Retry-After, and what was
learned is what a fresh start would learn from the same rows. Some minutes; ends with 1 where one of it does not hold.
"""

import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import Engine, delete, func, select

from service.settings import Settings
from service.storage import measurement_tables as measured
from service.storage import migrations, tables
from service.storage.database import make_engine, writing
from service.storage.learning import learn_some
from service.storage.snapshot import SnapshotKeeper
from service.storage.tokens import Scope, create_token
from tests.api.gunicorn_server import Server, gunicorn
from tests.api.school import fill
from tests.soak import faults
from tests.soak.uploading import Ledger, flood

UPLOADERS, SECONDS = 64, 8.0
ON_SQLITE = {
    "flood": faults.nothing,
    "killed workers": faults.killed_workers,
    "locked": faults.locked,
    "full disk": faults.full,
    "half-open sockets": faults.half_open,
    "oversized bodies": faults.oversized,
}
ON_POSTGRESQL = "postgresql restart"
_SERVED = frozenset({0, 200, 503})


def main(arguments: Sequence[str]) -> int:
    """Run the faults named, all by default."""
    asked = list(arguments) or [*ON_SQLITE, ON_POSTGRESQL]
    held = True
    for name in asked:
        # Not below the temporary folder of pytest: as root, the PostgreSQL of the wheel runs as its own user.
        with tempfile.TemporaryDirectory(prefix="kvquote-soak-") as folder, ExitStack() as stack:
            url, fault = f"sqlite:///{folder}/soak.db", ON_SQLITE.get(name, faults.nothing)
            if name == ON_POSTGRESQL:
                url, fault = stack.enter_context(faults.restarting_postgresql(Path(folder)))
            held = _run(name, url, fault, Path(folder)) and held
    return int(not held)


def _run(name: str, url: str, fault: faults.Fault, folder: Path) -> bool:
    with _served(url, folder) as (server, token):
        ledger = flood(server.port, token, UPLOADERS, SECONDS, lambda: fault(server, url))
    return _told(name, url, ledger)


@contextmanager
def _served(url: str, folder: Path) -> Iterator[tuple[Server, dict[str, str]]]:
    migrations.upgrade(url)
    fill(url)
    engine = make_engine(url)
    with writing(engine) as connection:
        text = create_token(connection, "soak", [Scope.MEASUREMENTS_WRITE], "soak", None)[1]
    engine.dispose()
    settings = {"KVQUOTE_WORKERS": "2", "KVQUOTE_THREADS": "16", "KVQUOTE_LEARNING_SECONDS": "3"}
    with gunicorn(url, folder / "server.log", **settings) as server:
        yield server, {"Authorization": f"Bearer {text}"}


def _told(name: str, url: str, ledger: Ledger) -> bool:
    engine = make_engine(Settings.from_environment({"DATABASE_URL": url}).database_url, 30)
    with engine.connect() as connection:
        stored = {str(found) for found in connection.scalars(select(measured.MEASUREMENT.c.id))}
        rows = connection.scalar(select(func.count()).select_from(measured.MEASUREMENT)) or 0
    lost = len(ledger.taken - stored)
    twice = rows - len(stored) + sum(count > 1 for count in ledger.stored_once.values())
    odd = sum(count for status, count in ledger.statuses.items() if status not in _SERVED)
    same = _learned(engine) == _learned(engine, afresh=True)
    engine.dispose()
    words = f"answered {len(ledger.taken):,}, stored {rows:,}, LOST {lost}, TWICE {twice}"
    states = ", ".join(f"{count:,} x {status or 'broken'}" for status, count in sorted(ledger.statuses.items()))
    print(
        f"{name}: {words}; {states}; 503 without Retry-After {ledger.without_retry}; learned alike {same}", flush=True
    )
    return not (lost or twice or odd or ledger.without_retry) and same and bool(ledger.taken)


def _learned(engine: Engine, *, afresh: bool = False) -> list[tuple[object, ...]]:
    """What is known once every row was taken up, from where learning stands or from the first row on."""
    if afresh:
        with writing(engine) as connection:
            kept = (
                measured.LEARNING_SAMPLE,
                measured.LEARNING_QUEUE,
                measured.LEARNING_STATE,
            )
            for table in (*kept, tables.CALIBRATION_VALUE, tables.CALIBRATION_REVISION):
                connection.execute(delete(table))
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    while not learn_some(engine, keeper.current()).done:
        keeper.refresh()
    value = tables.CALIBRATION_VALUE.c
    with engine.connect() as connection:
        found = connection.execute(
            select(value.quantity, value.key, value.usable).where(value.ended_revision.is_(None))
        )
        return sorted(tuple(row) for row in found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
