import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import Engine, event, select, update

from service.domain.catalog import Entry
from service.storage.canonical import facts_digest
from service.storage.catalog import CatalogDelta, Change, read_entries, read_facts
from service.storage.database import reading, writing
from service.storage.entry_writes import Writer, Written, write_entry
from service.storage.history import entry_history
from service.storage.snapshot import Snapshot
from service.storage.tables import AUDIT_EVENT, CATALOG_ENTRY
from service.storage.tokens import Scope, create_token, find_token
from tests.storage.entries import GPU, gpu_change, gpu_facts, revision, store


class RefusedError(Exception):
    pass


@pytest.fixture
def writer(engine: Engine) -> Writer:
    with writing(engine) as connection:
        return Writer(create_token(connection, "ci", [Scope.CATALOG_WRITE], "tests", None)[0], "request-1")


def permit(_catalog: Snapshot, _before: Entry | None) -> None:
    """Everything."""


def write(engine: Engine, writer: Writer, change: Change, known: Snapshot | None = None) -> Written:
    return write_entry(engine, known or Snapshot.empty(), change, writer, permit)


def test_an_entry_is_created_as_a_revision_that_says_who_and_where_from(engine: Engine, writer: Writer) -> None:
    written = write(engine, writer, gpu_change())

    assert written == Written(Entry(GPU, "a100", gpu_facts(), 1), created=True)
    with reading(engine) as connection:
        made = revision(connection, 1)
    assert (made.author, made.origin, made.summary) == (f"ci (token {writer.token.id})", "api", "created gpu a100")


def test_a_change_says_which_fields_it_changed(engine: Engine, writer: Writer) -> None:
    write(engine, writer, gpu_change())

    written = write(engine, writer, gpu_change(name="renamed"))

    assert written == Written(Entry(GPU, "a100", gpu_facts(name="renamed"), 2), created=False)
    with reading(engine) as connection:
        assert revision(connection, 2).summary == 'changed gpu a100: name: "A100" -> "renamed"'


def test_a_change_of_many_fields_names_the_first(engine: Engine, writer: Writer) -> None:
    fields = [f"field{number}" for number in range(8)]
    write(engine, writer, Change(GPU, "a100", gpu_facts() | dict.fromkeys(fields, 1)))
    write(engine, writer, Change(GPU, "a100", gpu_facts() | dict.fromkeys(fields, 2)))

    with reading(engine) as connection:
        assert revision(connection, 2).summary.endswith("field4: 1 -> 2; and 3 more")


def test_what_is_there_already_makes_no_revision(engine: Engine, writer: Writer) -> None:
    write(engine, writer, gpu_change())
    reordered = Change(GPU, "a100", dict(reversed(gpu_facts().items())))

    again = write(engine, writer, reordered)

    assert again == Written(Entry(GPU, "a100", gpu_facts(), 1), created=False)
    assert again.entry
    assert list(again.entry.facts) == list(gpu_facts())
    with reading(engine) as connection:
        assert len(connection.execute(select(AUDIT_EVENT).where(AUDIT_EVENT.c.subject == "gpu/a100")).all()) == 1


def test_what_is_stored_and_no_object_is_written_over_by_what_it_was(engine: Engine, writer: Writer) -> None:
    store(engine, gpu_change())
    with writing(engine) as connection:
        connection.execute(update(CATALOG_ENTRY).values(facts=[1]))

    written = write(engine, writer, gpu_change())

    assert (written.created, written.entry and written.entry.revision) == (True, 2)
    with reading(engine) as connection:
        assert read_facts(connection, [(GPU, "a100")]) == {(GPU, "a100"): gpu_facts()}


def test_an_entry_is_deleted(engine: Engine, writer: Writer) -> None:
    write(engine, writer, gpu_change())

    assert write(engine, writer, Change(GPU, "a100", None)) == Written(None, created=False)
    with reading(engine) as connection:
        assert revision(connection, 2).summary == "deleted gpu a100"


def test_each_change_is_in_the_audit_with_before_and_after(engine: Engine, writer: Writer) -> None:
    write(engine, writer, gpu_change())
    write(engine, writer, gpu_change(name="renamed"))
    write(engine, writer, Change(GPU, "a100", None))

    with reading(engine) as connection:
        events = connection.execute(
            select(AUDIT_EVENT).where(AUDIT_EVENT.c.subject == "gpu/a100").order_by(AUDIT_EVENT.c.id)
        ).all()
    before, after = facts_digest(gpu_facts()), facts_digest(gpu_facts(name="renamed"))
    assert [(e.action, e.revision, e.before_digest, e.after_digest) for e in events] == [
        ("catalog.created", 1, None, before),
        ("catalog.changed", 2, before, after),
        ("catalog.deleted", 3, after, None),
    ]
    assert {(e.actor, e.request_id) for e in events} == {(writer.token.actor, "request-1")}


def test_a_token_remembers_that_it_wrote(engine: Engine, writer: Writer) -> None:
    write(engine, writer, gpu_change())

    with reading(engine) as connection:
        token = find_token(connection, writer.token.id)
    assert token is not None
    assert token.last_used_at is not None


def test_what_is_refused_leaves_nothing(engine: Engine, writer: Writer) -> None:
    def refuse(_catalog: Snapshot, _before: Entry | None) -> None:
        raise RefusedError

    with pytest.raises(RefusedError):
        write_entry(engine, Snapshot.empty(), gpu_change(), writer, refuse)

    with reading(engine) as connection:
        assert read_entries(connection).revision == 0
        assert connection.scalars(select(AUDIT_EVENT.c.action)).all() == ["token.created"]


def test_it_is_judged_by_the_catalog_as_it_is_and_not_as_it_was_known(engine: Engine, writer: Writer) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    with reading(engine) as connection:
        known = Snapshot.empty().changed(read_entries(connection))
    store(engine, gpu_change(name="renamed"), Change(GPU, "t4", None))
    seen: list[object] = []

    def note(catalog: Snapshot, before: Entry | None) -> None:
        seen.extend((catalog.revision, catalog.ids(GPU), before and before.facts["name"]))

    write_entry(engine, known, gpu_change(name="again"), writer, note)

    assert seen == [2, ("a100",), "renamed"]


def test_a_database_that_was_restored_is_read_anew(engine: Engine, writer: Writer) -> None:
    store(engine, gpu_change("t4"))
    elsewhere = Snapshot.empty().changed(CatalogDelta(9, (), ()))
    seen: list[tuple[str, ...]] = []

    write_entry(engine, elsewhere, gpu_change(), writer, lambda catalog, _: seen.append(catalog.ids(GPU)))

    assert seen == [("t4",)]


def test_only_what_changed_since_is_read(engine: Engine, writer: Writer) -> None:
    store(engine, *(gpu_change(f"gpu-{number}") for number in range(50)))
    with reading(engine) as connection:
        known = Snapshot.empty().changed(read_entries(connection))
    read: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: read.append(str(call[2])))

    write(engine, writer, gpu_change("gpu-1", name="renamed"), known)

    assert not [query for query in read if "catalog_entry.revision >" in query]


def test_of_writers_that_all_saw_the_same_exactly_one_wins_and_nothing_is_lost(engine: Engine, writer: Writer) -> None:
    store(engine, gpu_change())
    barrier = threading.Barrier(6)

    def compete(number: int) -> str:
        def only_if_unchanged(_catalog: Snapshot, before: Entry | None) -> None:
            if before is None or before.revision != 1:
                raise RefusedError

        barrier.wait()
        try:
            write_entry(engine, Snapshot.empty(), gpu_change(name=f"writer {number}"), writer, only_if_unchanged)
        except RefusedError:
            return "refused"
        return f"writer {number}"

    with ThreadPoolExecutor(6) as pool:
        outcomes = list(pool.map(compete, range(6)))

    (winner,) = set(outcomes) - {"refused"}
    assert outcomes.count("refused") == 5
    with reading(engine) as connection:
        assert read_facts(connection, [(GPU, "a100")])[GPU, "a100"]["name"] == winner
        assert [state.revision for state in entry_history(connection, (GPU, "a100"), 9, below=9)] == [2, 1]
