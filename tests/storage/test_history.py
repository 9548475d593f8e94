from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import Engine, event, update
from sqlalchemy.orm import Session, sessionmaker

from service.domain.errors import CatalogUnavailable, UnknownGpu, ValidationError
from service.storage.catalog import CatalogDelta, Change
from service.storage.database import read_session, write_session
from service.storage.history import entry_history, first_revision_at, revision_at, way_back
from service.storage.past import PastCatalogs
from service.storage.snapshot import Snapshot, SnapshotKeeper
from service.storage.tables import CatalogRevision
from tests.storage.entries import GPU, MODEL, gpu_change, gpu_facts, model_change, store

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


@pytest.fixture
def past(sessions: sessionmaker[Session]) -> PastCatalogs:
    keeper = SnapshotKeeper(sessions)
    keeper.refresh()
    return PastCatalogs(sessions, keeper)


def spread_out(sessions: sessionmaker[Session]) -> None:
    """Let revision n have been made n hours after START."""
    with write_session(sessions) as session:
        for revision in session.query(CatalogRevision):
            session.execute(
                update(CatalogRevision)
                .where(CatalogRevision.id == revision.id)
                .values(made_at=START + revision.id * HOUR)
            )


def edited(sessions: sessionmaker[Session]) -> None:
    """Revision 1 has a100 and t4, 2 renames a100, 3 deletes t4 and adds l4, 4 brings t4 back."""
    store(sessions, gpu_change("a100"), gpu_change("t4"), model_change())
    store(sessions, gpu_change("a100", name="renamed"))
    store(sessions, Change(GPU, "t4", None), gpu_change("l4"))
    store(sessions, gpu_change("t4", name="back"))
    spread_out(sessions)


def back(sessions: sessionmaker[Session], revision: int) -> CatalogDelta:
    with read_session(sessions) as session:
        return way_back(session, revision)


def names(catalog: Snapshot) -> dict[str, object]:
    return {gpu_id: catalog.facts(GPU, gpu_id)["name"] for gpu_id in catalog.ids(GPU)}


@pytest.mark.parametrize("hours, revision", [(0.5, None), (1, 1), (1.5, 1), (2, 2), (99, 4)])
def test_a_moment_has_the_newest_revision_made_until_then(
    sessions: sessionmaker[Session], hours: float, revision: int | None
) -> None:
    edited(sessions)

    with read_session(sessions) as session:
        assert revision_at(session, START + hours * HOUR) == revision


def test_a_catalog_begins_with_its_first_revision(sessions: sessionmaker[Session]) -> None:
    with read_session(sessions) as session:
        assert first_revision_at(session) is None
    edited(sessions)
    with read_session(sessions) as session:
        assert first_revision_at(session) == START + HOUR


def test_an_entry_tells_what_it_went_through_the_newest_first(sessions: sessionmaker[Session]) -> None:
    edited(sessions)

    with read_session(sessions) as session:
        states = entry_history(session, (GPU, "t4"), 10, below=99)

    assert [(state.revision, state.action, state.facts) for state in states] == [
        (4, "created", gpu_facts("t4", name="back")),
        (3, "deleted", None),
        (1, "created", gpu_facts("t4")),
    ]
    assert (states[0].author, states[0].origin, states[0].made_at) == ("tests", "files", START + 4 * HOUR)


def test_its_history_can_be_read_in_pages(sessions: sessionmaker[Session]) -> None:
    edited(sessions)

    with read_session(sessions) as session:
        pages = [entry_history(session, (GPU, "t4"), 1, below) for below in (99, 4, 3, 1)]

    assert [[state.revision for state in page] for page in pages] == [[4], [3], [1], []]


def test_the_way_back_holds_only_what_changed_since(sessions: sessionmaker[Session]) -> None:
    edited(sessions)

    assert [(entry.id, entry.revision) for entry in back(sessions, 3).entries] == []
    assert back(sessions, 3).deleted == ((GPU, "t4"),)
    assert [(entry.id, entry.revision) for entry in back(sessions, 2).entries] == [("t4", 1)]
    assert back(sessions, 2).deleted == ((GPU, "l4"),)
    assert back(sessions, 4) == CatalogDelta(4, (), ())


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
    sessions: sessionmaker[Session], past: PastCatalogs, revision: int, expected: dict[str, str]
) -> None:
    edited(sessions)

    catalog = past.at(START + revision * HOUR)

    assert (catalog.revision, names(catalog)) == (revision, expected)


def test_entries_carry_the_revision_they_had_then(sessions: sessionmaker[Session], past: PastCatalogs) -> None:
    edited(sessions)

    catalog = past.at(START + 2 * HOUR)

    assert (catalog.gpu("a100").revision, catalog.gpu("t4").revision) == (2, 1)


def test_a_name_that_came_later_is_not_known_then(sessions: sessionmaker[Session], past: PastCatalogs) -> None:
    edited(sessions)

    with pytest.raises(UnknownGpu):
        past.at(START + HOUR).gpu("l4")


def test_what_has_not_changed_since_is_shared_with_the_present(sessions: sessionmaker[Session]) -> None:
    edited(sessions)
    keeper = SnapshotKeeper(sessions)
    keeper.refresh()

    catalog = PastCatalogs(sessions, keeper).at(START + HOUR)

    assert catalog.stored(MODEL, "tiny") is keeper.current().stored(MODEL, "tiny")
    assert catalog.model("tiny") is keeper.current().model("tiny")


def test_the_present_is_the_present_snapshot_itself(sessions: sessionmaker[Session]) -> None:
    edited(sessions)
    keeper = SnapshotKeeper(sessions)
    keeper.refresh()

    assert PastCatalogs(sessions, keeper).at(START + 9 * HOUR) is keeper.current()


def test_a_moment_in_the_future_is_refused(sessions: sessionmaker[Session], past: PastCatalogs) -> None:
    store(sessions, gpu_change())

    with pytest.raises(ValidationError, match="is in the future") as caught:
        past.at(datetime.now(UTC) + HOUR)

    assert caught.value.faults[0].pointer == "/as_of"


def test_a_moment_before_the_first_revision_is_refused(sessions: sessionmaker[Session], past: PastCatalogs) -> None:
    with pytest.raises(ValidationError, match="it has no revision yet"):
        past.at(START)
    edited(sessions)
    with pytest.raises(ValidationError, match="it begins at 2026-01-01T01:00:00Z"):
        past.at(START)


def test_a_revision_that_another_process_made_is_read_first(
    sessions: sessionmaker[Session], past: PastCatalogs
) -> None:
    store(sessions, gpu_change())

    assert past.at(datetime.now(UTC)).revision == 1


def test_a_present_that_cannot_be_read_is_said(sessions: sessionmaker[Session]) -> None:
    class Stuck:
        def current(self) -> Snapshot:
            return Snapshot.empty()

        def refresh(self) -> bool:
            return False

    edited(sessions)

    with pytest.raises(CatalogUnavailable):
        PastCatalogs(sessions, Stuck()).at(START + HOUR)


def test_a_snapshot_of_the_past_is_made_once(
    sessions: sessionmaker[Session], engine: Engine, past: PastCatalogs
) -> None:
    edited(sessions)
    first = past.at(START + HOUR)
    queries: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: queries.append(str(call[2])))

    assert past.at(START + 1.5 * HOUR) is first
    assert len([query for query in queries if query.startswith("SELECT")]) == 1


def test_only_the_snapshots_that_were_asked_for_last_are_kept(sessions: sessionmaker[Session]) -> None:
    edited(sessions)
    keeper = SnapshotKeeper(sessions)
    keeper.refresh()
    past = PastCatalogs(sessions, keeper, kept=2)
    first = past.at(START + HOUR)
    past.at(START + 2 * HOUR)

    assert past.at(START + HOUR) is first
    past.at(START + 3 * HOUR)
    assert past.at(START + HOUR) is first
    assert sorted(past._kept) == [1, 3]


def test_a_database_that_was_restored_takes_its_past_with_it(sessions: sessionmaker[Session]) -> None:
    edited(sessions)
    keeper = SnapshotKeeper(sessions)
    keeper.refresh()
    past = PastCatalogs(sessions, keeper)
    before = past.at(START + HOUR)

    keeper._snapshot = Snapshot.empty()

    assert past.at(START + HOUR) is not before
