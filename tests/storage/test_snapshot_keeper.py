import logging
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, delete, event

from service.domain.errors import CatalogUnavailable
from service.storage import calibrations
from service.storage.database import dispose_after_fork, look, make_engine, writing
from service.storage.snapshot import SnapshotKeeper
from service.storage.tables import CATALOG_CHANGE, CATALOG_ENTRY, CATALOG_REVISION
from tests.storage.entries import GPU, gpu_change, model_change, store


@pytest.fixture
def keeper(engine: Engine) -> Iterator[SnapshotKeeper]:
    keeper = SnapshotKeeper(engine, refresh_seconds=0.05)
    yield keeper
    keeper.stop()


@pytest.fixture
def unreachable(tmp_path: Path) -> Iterator[SnapshotKeeper]:
    """A keeper whose database file appears only when a test makes its folder."""
    engine = make_engine(f"sqlite:///{tmp_path / 'later' / 'kvquote.db'}")
    yield SnapshotKeeper(engine)
    engine.dispose()


def traffic(engine: Engine) -> list[str]:
    """From now on, each use of a connection and each statement of SQLAlchemy's own, as they come."""
    seen: list[str] = []
    event.listen(engine, "checkout", lambda *_: seen.append("connection"))
    event.listen(engine, "before_cursor_execute", lambda *call: seen.append(str(call[2])))
    return seen


def comes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


def test_without_a_first_reading_there_is_no_catalog(keeper: SnapshotKeeper) -> None:
    with pytest.raises(CatalogUnavailable):
        keeper.current()


def test_a_refresh_reads_the_catalog(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change(), model_change())

    assert keeper.refresh()

    assert (keeper.current().revision, keeper.current().gpu("a100").id) == (1, "a100")


def test_a_refresh_without_a_change_reads_one_row(
    engine: Engine, keeper: SnapshotKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(engine, gpu_change())
    keeper.refresh()
    before = keeper.current()
    seen = traffic(engine)
    looks: list[str] = []

    def looking(database: Engine, query: str) -> tuple[Any, ...]:
        looks.append(query)
        return look(database, query)

    monkeypatch.setattr(calibrations, "look", looking)

    keeper.refresh()

    assert keeper.current() is before
    assert seen == ["connection"]
    assert ["catalog_revision" in query for query in looks] == [True]


def test_a_refresh_reads_only_what_changed(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change("a100"), gpu_change("t4"))
    keeper.refresh()
    untouched = keeper.current().gpu("t4")
    store(engine, gpu_change("a100", advertised_bytes=1))

    keeper.refresh()

    assert keeper.current().gpu("a100").advertised_bytes == 1
    assert keeper.current().gpu("t4") is untouched


def test_a_catalog_that_fell_back_is_read_anew(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change("a100"))
    store(engine, gpu_change("t4"))
    keeper.refresh()
    with writing(engine) as connection:
        for table in (CATALOG_CHANGE, CATALOG_ENTRY):
            connection.execute(delete(table).where(table.c.revision == 2))
        connection.execute(delete(CATALOG_REVISION).where(CATALOG_REVISION.c.id == 2))

    keeper.refresh()

    assert (keeper.current().revision, keeper.current().ids(GPU)) == (1, ("a100",))


def test_the_timer_sees_what_others_wrote(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change("a100"))
    keeper.start()
    assert comes_true(lambda: keeper._snapshot is not None)

    store(engine, gpu_change("t4"))

    assert comes_true(lambda: keeper.current().revision == 2)


def test_starting_twice_runs_one_timer(keeper: SnapshotKeeper) -> None:
    keeper.start()
    first = keeper._timer

    keeper.start()

    assert keeper._timer is first


def test_a_stopped_keeper_still_answers(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change())
    keeper.refresh()
    keeper.start()

    keeper.stop()

    assert keeper.current().revision == 1


def test_a_database_that_is_away_leaves_the_old_catalog(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change())
    keeper.refresh()
    with writing(engine) as connection:
        connection.exec_driver_sql("ALTER TABLE catalog_revision RENAME TO mislaid")

    assert not keeper.refresh()

    assert keeper.current().gpu("a100").id == "a100"


def test_trouble_is_logged_once_when_it_begins_and_once_when_it_ends(
    unreachable: SnapshotKeeper, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from service.storage.migrations import upgrade

    caplog.set_level(logging.INFO, "service.storage")
    assert [unreachable.refresh() for _ in range(3)] == [False] * 3

    (tmp_path / "later").mkdir()
    upgrade(f"sqlite:///{tmp_path / 'later' / 'kvquote.db'}")
    assert [unreachable.refresh() for _ in range(3)] == [True] * 3

    assert [record.getMessage() for record in caplog.records if record.name.startswith("service.")] == [
        "catalog cannot be read, kept: none (OperationalError: unable to open database file)",
        "catalog can be read again",
    ]


def test_the_timer_outlives_a_database_that_is_away(tmp_path: Path, unreachable: SnapshotKeeper) -> None:
    from service.storage.migrations import upgrade

    unreachable._refresh_seconds = 0.05
    unreachable.start()
    assert comes_true(lambda: unreachable._failing)

    (tmp_path / "later").mkdir()
    upgrade(f"sqlite:///{tmp_path / 'later' / 'kvquote.db'}")

    assert comes_true(lambda: unreachable._snapshot is not None)
    unreachable.stop()


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_child_starts_a_timer_of_its_own(engine: Engine, keeper: SnapshotKeeper) -> None:
    store(engine, gpu_change("a100"))
    keeper.refresh()
    keeper.start()
    # As unlucky as it can be: the parent's timer is refreshing at the moment of the fork.
    keeper._refreshing.acquire()
    child = os.fork()
    if child == 0:
        os._exit(0 if _sees_new_revision(engine, keeper) else 1)
    keeper._refreshing.release()
    store(engine, gpu_change("t4"))

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert comes_true(lambda: keeper.current().revision == 2)


def _sees_new_revision(engine: Engine, keeper: SnapshotKeeper) -> bool:
    dispose_after_fork(engine)
    return comes_true(lambda: keeper.current().revision == 2)
