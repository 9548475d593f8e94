import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Engine, event, select, text, update
from sqlalchemy.exc import IntegrityError

from service.domain.catalog import CatalogKind
from service.storage.catalog import (
    CatalogDelta,
    Change,
    current_revision,
    entry_states,
    keys_deleted_by_others,
    keys_ever_from,
    lock_catalog,
    read_entries,
    read_facts,
)
from service.storage.database import reading, writing
from service.storage.tables import CATALOG_CHANGE, CATALOG_ENTRY, CATALOG_REVISION
from tests.storage.entries import GPU, MODEL, gpu_change, gpu_facts, model_change, revision, store


def read(engine: Engine, since_revision: int = 0) -> CatalogDelta:
    with reading(engine) as connection:
        return read_entries(connection, since_revision)


def names(delta: CatalogDelta) -> list[tuple[str, int]]:
    return sorted((entry.id, entry.revision) for entry in delta.entries)


def history(engine: Engine, entry_id: str) -> list[tuple[int, str, dict[str, Any] | None]]:
    with reading(engine) as connection:
        changes = connection.execute(
            select(CATALOG_CHANGE).where(CATALOG_CHANGE.c.id == entry_id).order_by(CATALOG_CHANGE.c.revision)
        )
        return [(change.revision, change.action, change.facts) for change in changes]


def test_a_catalog_never_loaded_is_at_revision_zero(engine: Engine) -> None:
    assert read(engine) == CatalogDelta(0, (), ())


def test_revisions_count_from_one_without_a_gap(engine: Engine) -> None:
    assert [store(engine, gpu_change(memory=size)) for size in (1, 2, 3)] == [1, 2, 3]


def test_facts_come_back_as_they_were_written(engine: Engine) -> None:
    facts = {"z": 1, "a": [1.0, 1e22, 0.1, None, True], "text": "é 😀 \u202e\x00", "large": 2**60}
    store(engine, Change(GPU, "odd", facts))

    with reading(engine) as connection:
        read_back = read_facts(connection, [(GPU, "odd")])[GPU, "odd"]

    assert read_back == facts
    assert list(read_back) == list(facts)
    assert type(read_back["a"][0]) is float


def test_entries_are_read_as_compact_json(engine: Engine) -> None:
    store(engine, Change(GPU, "small", {"id": "small", "list": [1, 2]}))

    (entry,) = read(engine).entries

    assert entry.facts_json == b'{"id":"small","list":[1,2]}'


def test_a_change_to_what_is_stored_already_makes_no_revision(engine: Engine) -> None:
    store(engine, gpu_change())
    reordered = dict(reversed(gpu_facts().items()))

    assert store(engine, Change(GPU, "a100", reordered)) is None
    assert store(engine, Change(GPU, "never-there", None)) is None
    assert read(engine).revision == 1


def test_a_revision_says_who_when_and_where_from(engine: Engine) -> None:
    started = datetime.now(UTC)
    store(engine, gpu_change(), origin="api")

    with reading(engine) as connection:
        made = revision(connection, 1)

    assert (made.author, made.origin, made.summary) == ("tests", "api", "a change")
    assert timedelta() <= made.made_at - started < timedelta(minutes=1)


def test_times_rise_with_revisions_even_after_a_clock_was_set_back(engine: Engine) -> None:
    store(engine, gpu_change())
    tomorrow = datetime.now(UTC) + timedelta(days=1)
    with writing(engine) as connection:
        connection.execute(update(CATALOG_REVISION).values(made_at=tomorrow))

    store(engine, gpu_change(memory=1))

    with reading(engine) as connection:
        assert revision(connection, 2).made_at == tomorrow


def test_only_what_changed_since_a_revision_is_read(engine: Engine) -> None:
    store(engine, gpu_change("a100"), gpu_change("h100"), gpu_change("t4"))
    store(engine, gpu_change("h100", name="renamed"), gpu_change("b200"))

    assert names(read(engine, 1)) == [("b200", 2), ("h100", 2)]
    assert names(read(engine)) == [("a100", 1), ("b200", 2), ("h100", 2), ("t4", 1)]


def test_a_deletion_is_told_to_who_knows_the_entry(engine: Engine) -> None:
    store(engine, gpu_change("a100"), gpu_change("t4"))
    store(engine, Change(GPU, "t4", None))

    assert read(engine, 1) == CatalogDelta(2, (), ((GPU, "t4"),))
    assert names(read(engine)) == [("a100", 1)]


def test_an_entry_created_again_is_not_told_as_deleted(engine: Engine) -> None:
    store(engine, gpu_change())
    store(engine, Change(GPU, "a100", None))
    store(engine, gpu_change())

    delta = read(engine, 1)

    assert (names(delta), delta.deleted) == ([("a100", 3)], ())


def test_every_state_an_entry_had_is_kept(engine: Engine) -> None:
    store(engine, gpu_change())
    store(engine, gpu_change(name="renamed"))
    store(engine, Change(GPU, "a100", None))

    assert history(engine, "a100") == [
        (1, "created", gpu_facts()),
        (2, "changed", gpu_facts(name="renamed")),
        (3, "deleted", None),
    ]


def test_kinds_may_share_an_id(engine: Engine) -> None:
    store(engine, gpu_change("same"), model_change("same"))

    assert sorted(entry.kind for entry in read(engine).entries) == [GPU, MODEL]


def test_an_entry_cannot_be_changed_twice_in_one_revision(engine: Engine) -> None:
    with pytest.raises(IntegrityError):
        store(engine, gpu_change(memory=1), gpu_change(memory=2))

    assert read(engine).revision == 0


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_facts_that_json_cannot_hold_are_refused(engine: Engine, number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        store(engine, Change(GPU, "a100", {"memory": number}))


def test_an_entry_of_a_kind_that_only_newer_releases_know_is_passed_over(engine: Engine) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    with writing(engine) as connection:
        connection.execute(update(CATALOG_ENTRY).where(CATALOG_ENTRY.c.id == "t4").values(kind="quantum"))

    assert names(read(engine)) == [("a100", 1)]
    with reading(engine) as connection:
        assert list(entry_states(connection)) == [(GPU, "a100")]


def test_the_current_revision_is_one_row(engine: Engine) -> None:
    store(engine, gpu_change())
    statements: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))

    with reading(engine) as connection:
        assert current_revision(connection) == 1

    selects = [statement for statement in statements if statement.startswith("SELECT")]
    assert len(selects) == 1
    assert "LIMIT" in selects[0]


def test_states_say_where_the_last_change_came_from(engine: Engine) -> None:
    store(engine, gpu_change("a100"), gpu_change("t4"))
    store(engine, gpu_change("t4", name="renamed"), origin="api")

    with reading(engine) as connection:
        states = entry_states(connection, [(GPU, "a100"), (GPU, "t4"), (MODEL, "t4")])

    assert {key[1]: (state.revision, state.origin) for key, state in states.items()} == {
        "a100": (1, "files"),
        "t4": (2, "api"),
    }


def test_entries_that_an_origin_touched_once_are_remembered(engine: Engine) -> None:
    store(engine, gpu_change("a100"))
    store(engine, gpu_change("a100", name="renamed"), gpu_change("t4"), origin="api")

    with reading(engine) as connection:
        assert keys_ever_from(connection, "files", [(GPU, "a100"), (GPU, "t4")]) == {(GPU, "a100")}


def test_deletions_of_others_are_told_from_ones_own(engine: Engine) -> None:
    store(engine, gpu_change("a100"), gpu_change("t4"), gpu_change("l4"))
    store(engine, Change(GPU, "a100", None), Change(GPU, "l4", None), origin="api")
    store(engine, Change(GPU, "t4", None))
    store(engine, gpu_change("l4"), origin="api")

    with reading(engine) as connection:
        keys = [(GPU, name) for name in ("a100", "t4", "l4", "h100")]
        assert keys_deleted_by_others(connection, "files", keys) == {(GPU, "a100")}


def test_thousands_of_entries_are_changed_at_once(engine: Engine) -> None:
    store(engine, *(gpu_change(f"gpu-{number}") for number in range(2500)))
    store(engine, *(Change(GPU, f"gpu-{number}", None) for number in range(2400)))

    assert len(read(engine).entries) == 100
    assert len(read(engine, 1).deleted) == 2400


def test_revisions_become_visible_in_their_order(engine: Engine) -> None:
    failures: list[str] = []
    done = threading.Event()

    def write(name: str) -> None:
        for number in range(8):
            store(engine, gpu_change(f"{name}-{number}"))

    def watch() -> None:
        seen: set[int] = set()
        while not done.is_set():
            with reading(engine) as connection:
                now = set(connection.scalars(select(CATALOG_REVISION.c.id)))
            failures.extend(f"{new} after {max(seen)}" for new in now - seen if seen and new < max(seen))
            seen = now

    watcher = threading.Thread(target=watch)
    writers = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c")]
    for thread in (watcher, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    watcher.join()

    assert failures == []
    assert read(engine).revision == 24


def test_a_locked_catalog_can_still_be_read(engine: Engine) -> None:
    store(engine, gpu_change())
    with writing(engine) as connection:
        lock_catalog(connection)

        assert read(engine).revision == 1


def test_ids_sort_by_their_bytes_on_either_database(engine: Engine) -> None:
    store(engine, *(gpu_change(name) for name in ("b", "a-2", "a1", "a.2", "a_2", "a")))

    with reading(engine) as connection:
        ordered = list(connection.scalars(select(CATALOG_ENTRY.c.id).order_by(CATALOG_ENTRY.c.id)))

    assert ordered == sorted(ordered)


def test_history_refuses_an_action_that_is_none(engine: Engine) -> None:
    store(engine, gpu_change())
    with pytest.raises(IntegrityError), writing(engine) as connection:
        connection.execute(text("UPDATE catalog_change SET action = 'mislaid'"))


def test_every_kind_can_be_stored(engine: Engine) -> None:
    store(engine, *(Change(kind, "x", {"id": "x"}) for kind in CatalogKind))

    assert {entry.kind for entry in read(engine).entries} == set(CatalogKind)
