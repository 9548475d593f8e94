import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event, select
from sqlalchemy.orm import Session, sessionmaker

from service.domain.catalog import Entry
from service.storage.canonical import facts_digest
from service.storage.catalog import CatalogDelta, Change, read_entries, read_facts
from service.storage.database import read_session, write_session
from service.storage.entry_writes import Writer, Written, write_entry
from service.storage.history import entry_history
from service.storage.snapshot import Snapshot
from service.storage.tables import AuditEvent, CatalogRevision
from service.storage.tokens import Scope, create_token, find_token
from tests.storage.entries import GPU, gpu_change, gpu_facts, store


class RefusedError(Exception):
    pass


@pytest.fixture
def writer(sessions: sessionmaker[Session]) -> Writer:
    with write_session(sessions) as session:
        return Writer(create_token(session, "ci", [Scope.CATALOG_WRITE], "tests", None)[0], "request-1")


def permit(_catalog: Snapshot, _before: Entry | None) -> None:
    """Everything."""


def write(sessions: sessionmaker[Session], writer: Writer, change: Change, known: Snapshot | None = None) -> Written:
    return write_entry(sessions, known or Snapshot.empty(), change, writer, permit)


def test_an_entry_is_created_as_a_revision_that_says_who_and_where_from(
    sessions: sessionmaker[Session], writer: Writer
) -> None:
    written = write(sessions, writer, gpu_change())

    assert written == Written(Entry(GPU, "a100", gpu_facts(), 1), created=True)
    with read_session(sessions) as session:
        made = session.get_one(CatalogRevision, 1)
    assert (made.author, made.origin, made.summary) == (f"ci (token {writer.token.id})", "api", "created gpu a100")


def test_a_change_says_which_fields_it_changed(sessions: sessionmaker[Session], writer: Writer) -> None:
    write(sessions, writer, gpu_change())

    written = write(sessions, writer, gpu_change(name="renamed"))

    assert written == Written(Entry(GPU, "a100", gpu_facts(name="renamed"), 2), created=False)
    with read_session(sessions) as session:
        assert session.get_one(CatalogRevision, 2).summary == 'changed gpu a100: name: "A100" -> "renamed"'


def test_a_change_of_many_fields_names_the_first(sessions: sessionmaker[Session], writer: Writer) -> None:
    fields = [f"field{number}" for number in range(8)]
    write(sessions, writer, Change(GPU, "a100", gpu_facts() | dict.fromkeys(fields, 1)))
    write(sessions, writer, Change(GPU, "a100", gpu_facts() | dict.fromkeys(fields, 2)))

    with read_session(sessions) as session:
        assert session.get_one(CatalogRevision, 2).summary.endswith("field4: 1 -> 2; and 3 more")


def test_what_is_there_already_makes_no_revision(sessions: sessionmaker[Session], writer: Writer) -> None:
    write(sessions, writer, gpu_change())
    reordered = Change(GPU, "a100", dict(reversed(gpu_facts().items())))

    again = write(sessions, writer, reordered)

    assert again == Written(Entry(GPU, "a100", gpu_facts(), 1), created=False)
    assert again.entry
    assert list(again.entry.facts) == list(gpu_facts())
    with read_session(sessions) as session:
        assert len(session.scalars(select(AuditEvent).where(AuditEvent.subject == "gpu/a100")).all()) == 1


def test_an_entry_is_deleted(sessions: sessionmaker[Session], writer: Writer) -> None:
    write(sessions, writer, gpu_change())

    assert write(sessions, writer, Change(GPU, "a100", None)) == Written(None, created=False)
    with read_session(sessions) as session:
        assert session.get_one(CatalogRevision, 2).summary == "deleted gpu a100"


def test_each_change_is_in_the_audit_with_before_and_after(sessions: sessionmaker[Session], writer: Writer) -> None:
    write(sessions, writer, gpu_change())
    write(sessions, writer, gpu_change(name="renamed"))
    write(sessions, writer, Change(GPU, "a100", None))

    with read_session(sessions) as session:
        events = session.scalars(
            select(AuditEvent).where(AuditEvent.subject == "gpu/a100").order_by(AuditEvent.id)
        ).all()
    before, after = facts_digest(gpu_facts()), facts_digest(gpu_facts(name="renamed"))
    assert [(e.action, e.revision, e.before_digest, e.after_digest) for e in events] == [
        ("catalog.created", 1, None, before),
        ("catalog.changed", 2, before, after),
        ("catalog.deleted", 3, after, None),
    ]
    assert {(e.actor, e.request_id) for e in events} == {(writer.token.actor, "request-1")}


def test_a_token_remembers_that_it_wrote(sessions: sessionmaker[Session], writer: Writer) -> None:
    write(sessions, writer, gpu_change())

    with read_session(sessions) as session:
        token = find_token(session, writer.token.id)
    assert token is not None
    assert token.last_used_at is not None


def test_what_is_refused_leaves_nothing(sessions: sessionmaker[Session], writer: Writer) -> None:
    def refuse(_catalog: Snapshot, _before: Entry | None) -> None:
        raise RefusedError

    with pytest.raises(RefusedError):
        write_entry(sessions, Snapshot.empty(), gpu_change(), writer, refuse)

    with read_session(sessions) as session:
        assert read_entries(session).revision == 0
        assert session.scalars(select(AuditEvent.action)).all() == ["token.created"]


def test_it_is_judged_by_the_catalog_as_it_is_and_not_as_it_was_known(
    sessions: sessionmaker[Session], writer: Writer
) -> None:
    store(sessions, gpu_change(), gpu_change("t4"))
    with read_session(sessions) as session:
        known = Snapshot.empty().changed(read_entries(session))
    store(sessions, gpu_change(name="renamed"), Change(GPU, "t4", None))
    seen: list[object] = []

    def note(catalog: Snapshot, before: Entry | None) -> None:
        seen.extend((catalog.revision, catalog.ids(GPU), before and before.facts["name"]))

    write_entry(sessions, known, gpu_change(name="again"), writer, note)

    assert seen == [2, ("a100",), "renamed"]


def test_a_database_that_was_restored_is_read_anew(sessions: sessionmaker[Session], writer: Writer) -> None:
    store(sessions, gpu_change("t4"))
    elsewhere = Snapshot.empty().changed(CatalogDelta(9, (), ()))
    seen: list[tuple[str, ...]] = []

    write_entry(sessions, elsewhere, gpu_change(), writer, lambda catalog, _: seen.append(catalog.ids(GPU)))

    assert seen == [("t4",)]


def test_only_what_changed_since_is_read(sessions: sessionmaker[Session], engine: Engine, writer: Writer) -> None:
    store(sessions, *(gpu_change(f"gpu-{number}") for number in range(50)))
    with read_session(sessions) as session:
        known = Snapshot.empty().changed(read_entries(session))
    read: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: read.append(str(call[2])))

    write(sessions, writer, gpu_change("gpu-1", name="renamed"), known)

    assert not [query for query in read if "catalog_entry.revision >" in query]


def test_of_writers_that_all_saw_the_same_exactly_one_wins_and_nothing_is_lost(
    sessions: sessionmaker[Session], writer: Writer
) -> None:
    store(sessions, gpu_change())
    barrier = threading.Barrier(6)

    def compete(number: int) -> str:
        def only_if_unchanged(_catalog: Snapshot, before: Entry | None) -> None:
            if before is None or before.revision != 1:
                raise RefusedError

        barrier.wait()
        try:
            write_entry(sessions, Snapshot.empty(), gpu_change(name=f"writer {number}"), writer, only_if_unchanged)
        except RefusedError:
            return "refused"
        return f"writer {number}"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(compete, range(6)))

    (winner,) = set(outcomes) - {"refused"}
    assert outcomes.count("refused") == 5
    with read_session(sessions) as session:
        assert read_facts(session, [(GPU, "a100")])[GPU, "a100"]["name"] == winner
        assert [state.revision for state in entry_history(session, (GPU, "a100"), 9, below=9)] == [2, 1]
