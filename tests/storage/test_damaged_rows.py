"""Rows that something else damaged: SQLite keeps as a text whatever was written, PostgreSQL what it can parse."""

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import Engine, text

from service.storage.canonical import compact_json
from service.storage.catalog import Change, StoredEntry, current_revision, entry_states, facts_of, read_facts
from service.storage.catalog_files import load
from service.storage.database import make_engine, reading, writing
from service.storage.entry_writes import Writer, write_entry
from service.storage.history import entry_history, way_back
from service.storage.snapshot import Snapshot, SnapshotKeeper
from service.storage.tokens import Scope, create_token
from tests.databases import Databases
from tests.storage.catalog_folder import CatalogFolder
from tests.storage.entries import GPU, gpu_change, gpu_facts, store

WHOLE = compact_json(gpu_facts("t4")).encode()
NO_TEXT = WHOLE.replace(b"T4", b"T\xff4")
DEEP = b'{"a":' * 3000
BESIDE = WHOLE[:-1] + b',"a":%s}'
"""A whole entry, but for one more fact."""
NO_JSON = [b"NaN", b'{"a":NaN}', DEEP, BESIDE % b"-Infinity"]
UNREADABLE = [
    b'{"memory_bytes":1e999}',
    DEEP + b"1" + b"}" * 3000,
    BESIDE % b"1e999",
    BESIDE % (b"[" * 900 + b"]" * 900),
    BESIDE % b'"\\ud800"',
]
"""What is JSON, but nothing that an answer could repeat."""
DAMAGED = pytest.mark.parametrize(
    "facts", [NO_TEXT, WHOLE[:-9], b"\xff", b"{\x00", b"", *NO_JSON, *UNREADABLE], ids=lambda facts: repr(facts[-24:])
)
Key = tuple[str, bytes, bytes]
NO_KEY = pytest.mark.parametrize(
    "key", [("TEXT", b"gpu", b"t\xff4"), ("TEXT", b"g\xffpu", b"t4"), ("BLOB", b"gpu", b"t4")], ids=str
)


@pytest.fixture
def engine(sqlite: Databases) -> Iterator[Engine]:
    with sqlite.migrated() as url:
        engine = make_engine(url)
        yield engine
        engine.dispose()


@pytest.fixture
def folder(tmp_path_factory: pytest.TempPathFactory) -> CatalogFolder:
    return CatalogFolder(tmp_path_factory.mktemp("catalog")).gpu("a100").gpu("t4")


@pytest.fixture
def either(database_url: str) -> Iterator[Engine]:
    """Once on each database."""
    engine = make_engine(database_url)
    yield engine
    engine.dispose()


def damage(engine: Engine, facts: bytes, table: str = "catalog_entry", *, entry_id: str = "t4") -> None:
    with writing(engine) as connection:
        statement = f"UPDATE {table} SET facts = CAST(? AS TEXT) WHERE id = ?"  # of these tests' own
        connection.exec_driver_sql(statement, (facts, entry_id))


def damage_key(engine: Engine, of_type: str, kind: bytes, entry_id: bytes, table: str = "catalog_entry") -> None:
    with writing(engine) as connection:
        values = f"kind = CAST(? AS TEXT), id = CAST(? AS {of_type})"
        connection.exec_driver_sql(
            f"UPDATE {table} SET {values} WHERE id = 't4'", (kind, entry_id)
        )  # of these tests' own


def damage_column(engine: Engine, column: str, value: str, *ids: str | int, table: str = "catalog_entry") -> None:
    """Set a column to an SQL expression, past every constraint."""
    with closing(engine.raw_connection()) as connection:
        connection.execute("PRAGMA foreign_keys = OFF")
        for row_id in ids or ["t4"]:
            connection.execute(f"UPDATE {table} SET {column} = {value} WHERE id = ?", (row_id,))  # of these tests' own
        connection.execute("PRAGMA foreign_keys = ON")


@DAMAGED
def test_an_entry_that_is_no_text_hides_no_other(
    engine: Engine, facts: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    damage(engine, facts)
    keeper = SnapshotKeeper(engine)

    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100",)
    assert "catalog entry left out: gpu t4 (" in caplog.text

    store(engine, gpu_change("l4"))
    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100", "l4")


@DAMAGED
def test_the_files_write_it_anew(engine: Engine, folder: CatalogFolder, facts: bytes) -> None:
    load(engine, folder.path, "tests")
    with reading(engine) as connection:
        before = read_facts(connection, [(GPU, "t4")])
    damage(engine, facts)

    report = load(engine, folder.path, "tests")

    assert (report.changed, report.unchanged) == (1, 1)
    with reading(engine) as connection:
        assert read_facts(connection, [(GPU, "t4")]) == before


@DAMAGED
def test_so_does_a_write_of_the_entry(engine: Engine, facts: bytes) -> None:
    store(engine, gpu_change("t4"))
    damage(engine, facts)
    with writing(engine) as connection:
        writer = Writer(create_token(connection, "ci", [Scope.CATALOG_WRITE], "tests", None)[0], "request-1")

    written = write_entry(engine, Snapshot.empty(), gpu_change("t4"), writer, lambda _catalog, _before: None)

    assert written.entry is not None
    assert written.entry.facts == gpu_facts("t4")
    with reading(engine) as connection:
        assert entry_states(connection)[GPU, "t4"].digest


@DAMAGED
def test_a_state_of_the_past_that_is_no_text_hides_no_other(engine: Engine, facts: bytes) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    damage(engine, facts, "catalog_change")
    store(engine, Change(GPU, "t4", None), Change(GPU, "a100", None))

    with reading(engine) as connection:
        states = entry_history(connection, (GPU, "t4"), 10, below=99)
        past = Snapshot.empty().changed(way_back(connection, 1))
        assert current_revision(connection) == 2

    assert [(state.revision, state.facts) for state in states] == [(2, None), (1, None)]
    assert past.ids(GPU) == ("a100",)


@NO_KEY
def test_a_key_that_is_no_text_hides_no_other(engine: Engine, caplog: pytest.LogCaptureFixture, key: Key) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    damage_key(engine, *key)
    keeper = SnapshotKeeper(engine)

    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100",)
    assert f"catalog entry left out: {key[1]!r} {key[2]!r} (its key is no text)" in caplog.text


@NO_KEY
def test_the_files_write_an_entry_beside_a_key_that_is_no_text(engine: Engine, folder: CatalogFolder, key: Key) -> None:
    load(engine, folder.path, "tests")
    damage_key(engine, *key)

    report = load(engine, folder.path, "tests")

    assert (report.lines, report.unchanged) == (("+ gpu t4",), 1)
    assert load(engine, folder.path, "tests").unchanged == 2
    keeper = SnapshotKeeper(engine)
    assert keeper.refresh()
    assert keeper.current().by_id(GPU, "t4") == StoredEntry(GPU, "t4", WHOLE, report.revision)


@NO_KEY
def test_a_change_whose_key_is_no_text_hides_no_other(engine: Engine, key: Key) -> None:
    store(engine, gpu_change(), gpu_change("t4"))
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    store(engine, Change(GPU, "t4", None), Change(GPU, "a100", None))
    damage_key(engine, *key, table="catalog_change")

    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("t4",)
    with reading(engine) as connection:
        assert Snapshot.empty().changed(way_back(connection, 1)).ids(GPU) == ("a100",)


@pytest.mark.parametrize("facts", UNREADABLE, ids=lambda facts: repr(facts[-24:]))
def test_what_either_database_keeps_as_json_is_written_anew(
    either: Engine, folder: CatalogFolder, facts: bytes
) -> None:
    load(either, folder.path, "tests")
    with writing(either) as connection:
        statement = text("UPDATE catalog_entry SET facts = CAST(:facts AS JSON) WHERE id = 't4'")
        if connection.dialect.name == "sqlite":
            statement = text("UPDATE catalog_entry SET facts = :facts WHERE id = 't4'")
        connection.execute(statement, {"facts": facts.decode()})
    keeper = SnapshotKeeper(either)
    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100",)

    report = load(either, folder.path, "tests")

    assert (report.changed, report.unchanged) == (1, 1)
    assert report.lines[0] == "~ gpu t4"
    assert keeper.refresh()
    assert keeper.current().facts(GPU, "t4") == gpu_facts("t4")


def test_what_is_no_json_is_told_as_text() -> None:
    assert facts_of(NO_TEXT) == NO_TEXT.decode(errors="replace")
    assert facts_of(WHOLE) == facts_of(WHOLE.decode()) == gpu_facts("t4")


NO_UTF8, BLOB = "CAST(X'66FF' AS TEXT)", "X'66FF'"


@pytest.mark.parametrize("value", [NO_UTF8, BLOB])
@pytest.mark.parametrize("column", ["digest", "origin"])
def test_the_files_write_a_row_anew_whose_digest_or_origin_is_no_text(
    engine: Engine, folder: CatalogFolder, column: str, value: str
) -> None:
    load(engine, folder.path, "tests")
    damage_column(engine, column, value)

    report = load(engine, folder.path, "tests")

    assert report.lines == ("~ gpu t4", "    written anew: the row is damaged, its facts are the same")
    assert (report.changed, report.unchanged) == (1, 1)
    assert load(engine, folder.path, "tests").unchanged == 2


def test_a_damaged_origin_takes_no_entry_from_those_who_changed_it(engine: Engine, folder: CatalogFolder) -> None:
    load(engine, folder.path, "tests")
    store(engine, gpu_change("t4", name="ours"), gpu_change("l4"), origin="api")
    damage_column(engine, "origin", NO_UTF8, "t4", "l4")

    report = load(engine, folder.path, "tests")

    assert (report.changed, report.deleted) == (0, 0)
    assert report.conflicts == ("gpu t4: changed by api in revision 2",)
    assert load(engine, folder.path, "tests", overwrite=True).changed == 1


def test_where_no_origin_is_left_only_what_the_files_hold_is_theirs(engine: Engine, folder: CatalogFolder) -> None:
    load(engine, folder.path, "tests")
    store(engine, gpu_change("t4", name="ours"), gpu_change("l4"), origin="api")
    damage_column(engine, "origin", NO_UTF8, "t4", "l4")
    damage_column(engine, "origin", NO_UTF8, 2, table="catalog_revision")

    report = load(engine, folder.path, "tests")

    assert report.lines == ("~ gpu t4", '    name: "ours" -> "T4"')
    assert report.conflicts == ()


def test_a_deletion_of_unreadable_origin_is_one_by_others(engine: Engine, folder: CatalogFolder) -> None:
    load(engine, folder.path, "tests")
    store(engine, Change(GPU, "t4", None), origin="api")
    damage_column(engine, "origin", NO_UTF8, 2, table="catalog_revision")

    assert load(engine, folder.path, "tests").conflicts == ("gpu t4: deleted since, not created again",)


@pytest.mark.parametrize("value", ["'ten'", NO_UTF8, BLOB, "1.5"])
def test_a_row_whose_revision_is_no_number_is_left_out_until_the_files_write_it(
    engine: Engine, folder: CatalogFolder, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    load(engine, folder.path, "tests")
    damage_column(engine, "revision", value)
    keeper = SnapshotKeeper(engine)

    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100",)
    assert "catalog entry left out: gpu t4 (its revision is no number)" in caplog.text
    assert load(engine, folder.path, "tests").changed == 1
    assert keeper.refresh()
    assert keeper.current().ids(GPU) == ("a100", "t4")
