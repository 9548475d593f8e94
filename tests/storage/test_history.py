from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, event, null, select, update

from service.domain.errors import CatalogUnavailable, UnknownGpu, ValidationError
from service.storage.catalog import CatalogDelta, Change
from service.storage.database import make_engine, reading, writing
from service.storage.history import entry_history, first_revision_at, revision_at, way_back
from service.storage.past import PastCatalogs
from service.storage.snapshot import Snapshot, SnapshotKeeper
from service.storage.tables import CATALOG_CHANGE, CATALOG_REVISION
from tests.databases import Databases
from tests.storage.entries import GPU, MODEL, gpu_change, gpu_facts, model_change, store

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def past(engine: Engine) -> PastCatalogs:
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    return PastCatalogs(engine, keeper)


def spread_out(engine: Engine) -> None:
    """Let revision n have been made n hours after START."""
    with writing(engine) as connection:
        for revision in connection.execute(select(CATALOG_REVISION.c.id)).all():
            connection.execute(
                update(CATALOG_REVISION)
                .where(CATALOG_REVISION.c.id == revision.id)
                .values(made_at=START + revision.id * HOUR)
            )


def edited(engine: Engine) -> None:
    """Revision 1 has a100 and t4, 2 renames a100, 3 deletes t4 and adds l4, 4 brings t4 back."""
    store(engine, gpu_change("a100"), gpu_change("t4"), model_change())
    store(engine, gpu_change("a100", name="renamed"))
    store(engine, Change(GPU, "t4", None), gpu_change("l4"))
    store(engine, gpu_change("t4", name="back"))
    spread_out(engine)


def back(engine: Engine, revision: int) -> CatalogDelta:
    with reading(engine) as connection:
        return way_back(connection, revision)


def names(catalog: Snapshot) -> dict[str, object]:
    return {gpu_id: catalog.facts(GPU, gpu_id)["name"] for gpu_id in catalog.ids(GPU)}


@pytest.mark.parametrize("hours, revision", [(0.5, None), (1, 1), (1.5, 1), (2, 2), (99, 4)])
def test_a_moment_has_the_newest_revision_made_until_then(engine: Engine, hours: float, revision: int | None) -> None:
    edited(engine)

    with reading(engine) as connection:
        assert revision_at(connection, START + hours * HOUR) == revision


@pytest.mark.parametrize("value", ["'soon'", "X'FF'", "CAST(X'FF' AS TEXT)", "'0001-01-01T00:00+14:00'"])
def test_a_beginning_that_is_no_time_is_not_told(sqlite: Databases, value: str) -> None:
    with sqlite.migrated() as url:
        engine = make_engine(url)
        store(engine, gpu_change())
        with writing(engine) as connection:
            connection.exec_driver_sql(f"UPDATE catalog_revision SET made_at = {value}")  # of this test's own
        with reading(engine) as connection:
            assert first_revision_at(connection) is None
            assert entry_history(connection, (GPU, "a100"), 1, below=9)[0].made_at is None
        assert store(engine, gpu_change(name="renamed")) == 2
        engine.dispose()


def test_a_catalog_begins_with_its_first_revision(engine: Engine) -> None:
    with reading(engine) as connection:
        assert first_revision_at(connection) is None
    edited(engine)
    with reading(engine) as connection:
        assert first_revision_at(connection) == START + HOUR


def test_an_entry_tells_what_it_went_through_the_newest_first(engine: Engine) -> None:
    edited(engine)

    with reading(engine) as connection:
        states = entry_history(connection, (GPU, "t4"), 10, below=99)

    assert [(state.revision, state.action, state.facts) for state in states] == [
        (4, "created", gpu_facts("t4", name="back")),
        (3, "deleted", None),
        (1, "created", gpu_facts("t4")),
    ]
    assert (states[0].author, states[0].origin, states[0].made_at) == ("tests", "files", START + 4 * HOUR)


@pytest.mark.parametrize("facts", [[1], "a100", null()])
def test_a_state_that_is_none_hides_no_other(engine: Engine, past: PastCatalogs, facts: object) -> None:
    edited(engine)
    with writing(engine) as connection:
        state = (CATALOG_CHANGE.c.id == "a100") & (CATALOG_CHANGE.c.revision == 1)
        connection.execute(update(CATALOG_CHANGE).where(state).values(facts=facts))

    with reading(engine) as connection:
        states = entry_history(connection, (GPU, "a100"), 10, below=99)
    assert [(state.revision, state.facts is None) for state in states] == [(2, False), (1, True)]
    assert past.at(START + 1.5 * HOUR).ids(GPU) == ("t4",)


def test_its_history_can_be_read_in_pages(engine: Engine) -> None:
    edited(engine)

    with reading(engine) as connection:
        pages = [entry_history(connection, (GPU, "t4"), 1, below) for below in (99, 4, 3, 1)]

    assert [[state.revision for state in page] for page in pages] == [[4], [3], [1], []]


def test_the_way_back_holds_only_what_changed_since(engine: Engine) -> None:
    edited(engine)

    assert [(entry.id, entry.revision) for entry in back(engine, 3).entries] == []
    assert back(engine, 3).deleted == ((GPU, "t4"),)
    assert [(entry.id, entry.revision) for entry in back(engine, 2).entries] == [("t4", 1)]
    assert back(engine, 2).deleted == ((GPU, "l4"),)
    assert back(engine, 4) == CatalogDelta(4, (), ())


@pytest.mark.parametrize(
    "revision, expected",
    [
        (1, {"a100": "A100", "t4": "T4"}),
        (2, {"a100": "renamed", "t4": "T4"}),
        (3, {"a100": "renamed", "l4": "L4"}),
        (4, {"a100": "renamed", "l4": "L4", "t4": "back"}),
    ],
)
def test_the_catalog_is_answered_as_it_was(
    engine: Engine, past: PastCatalogs, revision: int, expected: dict[str, str]
) -> None:
    edited(engine)

    catalog = past.at(START + revision * HOUR)

    assert (catalog.revision, names(catalog)) == (revision, expected)


def test_entries_carry_the_revision_they_had_then(engine: Engine, past: PastCatalogs) -> None:
    edited(engine)

    catalog = past.at(START + 2 * HOUR)

    assert (catalog.gpu("a100").revision, catalog.gpu("t4").revision) == (2, 1)


def test_a_name_that_came_later_is_not_known_then(engine: Engine, past: PastCatalogs) -> None:
    edited(engine)

    with pytest.raises(UnknownGpu):
        past.at(START + HOUR).gpu("l4")


def test_what_has_not_changed_since_is_shared_with_the_present(engine: Engine) -> None:
    edited(engine)
    keeper = SnapshotKeeper(engine)
    keeper.refresh()

    catalog = PastCatalogs(engine, keeper).at(START + HOUR)

    assert catalog.stored(MODEL, "tiny") is keeper.current().stored(MODEL, "tiny")
    assert catalog.model("tiny") is keeper.current().model("tiny")


def test_the_present_is_the_present_snapshot_itself(engine: Engine) -> None:
    edited(engine)
    keeper = SnapshotKeeper(engine)
    keeper.refresh()

    assert PastCatalogs(engine, keeper).at(START + 9 * HOUR) is keeper.current()


def test_a_moment_in_the_future_is_refused(engine: Engine, past: PastCatalogs) -> None:
    store(engine, gpu_change())

    with pytest.raises(ValidationError, match="is in the future") as caught:
        past.at(datetime.now(UTC) + HOUR)

    assert caught.value.faults[0].pointer == "/as_of"


def test_a_moment_before_the_first_revision_is_refused(engine: Engine, past: PastCatalogs) -> None:
    with pytest.raises(ValidationError, match="it has no revision yet"):
        past.at(START)
    edited(engine)
    with pytest.raises(ValidationError, match="it begins at 2026-01-01T01:00:00Z"):
        past.at(START)


def test_a_revision_that_another_process_made_is_read_first(engine: Engine, past: PastCatalogs) -> None:
    store(engine, gpu_change())

    assert past.at(datetime.now(UTC)).revision == 1


def test_a_present_that_cannot_be_read_is_said(engine: Engine) -> None:
    class Stuck:
        def current(self) -> Snapshot:
            return Snapshot.empty()

        def refresh(self) -> bool:
            return False

    edited(engine)

    with pytest.raises(CatalogUnavailable):
        PastCatalogs(engine, Stuck()).at(START + HOUR)


def test_a_snapshot_of_the_past_is_made_once(engine: Engine, past: PastCatalogs) -> None:
    edited(engine)
    first = past.at(START + HOUR)
    queries: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: queries.append(str(call[2])))

    assert past.at(START + 1.5 * HOUR) is first
    assert len([query for query in queries if query.startswith("SELECT")]) == 1


def test_only_the_snapshots_that_were_asked_for_last_are_kept(engine: Engine) -> None:
    edited(engine)
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    past = PastCatalogs(engine, keeper, kept=2)
    first = past.at(START + HOUR)
    past.at(START + 2 * HOUR)

    assert past.at(START + HOUR) is first
    past.at(START + 3 * HOUR)
    assert past.at(START + HOUR) is first
    assert sorted(past._kept) == [1, 3]


def test_a_database_that_was_restored_takes_its_past_with_it(engine: Engine) -> None:
    edited(engine)
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    past = PastCatalogs(engine, keeper)
    before = past.at(START + HOUR)

    keeper._snapshot = Snapshot.empty()

    assert past.at(START + HOUR) is not before
