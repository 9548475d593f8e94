"""Measurements in the database: judged again in batches, and budgets that hold in every process."""

from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from sqlalchemy import Engine, select, text

from service.api.replies import encode_sorted
from service.api.schemas.measurement_rows import read_row
from service.domain.catalog import CatalogKind
from service.domain.measurement import Lookups, judge
from service.storage import measurement_settling
from service.storage.catalog import Change, apply_changes
from service.storage.database import writing
from service.storage.measurement_reads import MeasurementFilter, find_measurements
from service.storage.measurement_settling import mark, pending_names, settle_some
from service.storage.measurement_tables import MEASUREMENT, MEASUREMENT_PROBE
from service.storage.measurements import MeasurementStore, name_of
from service.storage.snapshot import Snapshot, SnapshotKeeper
from service.storage.uploads import Budget, OverBudgetError, StaleCatalogError, Upload, new_row
from tests.api.desk import card
from tests.api.probing import fill, impossible_row, row, unmatched_row

ENOUGH = Budget(10**9, 10**12)


@pytest.fixture
def catalog(database_url: str, engine: Engine) -> Snapshot:
    fill(database_url)
    return newest(engine)


@pytest.fixture
def store(engine: Engine) -> MeasurementStore:
    return MeasurementStore(engine)


def newest(engine: Engine) -> Snapshot:
    keeper = SnapshotKeeper(engine)
    keeper.refresh()
    return keeper.current()


def upload(catalog: Snapshot, *rows: dict[str, Any], budget: Budget = ENOUGH) -> Upload:
    contents = [read_row(sent, 3).content or {} for sent in rows]
    arrived, lookups = datetime.now(UTC), Lookups(catalog)
    made = [new_row(one, encode_sorted(one), judge(one, arrived, lookups)) for one in contents]
    names = {("gpu", one.gpu_name) for one in made if one.gpu_name}
    return Upload(
        token_id="tests",
        note_use=False,
        received_at=arrived,
        clock_skew_seconds=None,
        catalog_revision=catalog.revision,
        trust_revision=catalog.distrust.revision,
        rows=made,
        names=[name_of(kind, name, catalog) for kind, name in names],
        rows_sent=len(rows),
        bytes_sent=100 * len(rows),
        budget=budget,
    )


def learn(engine: Engine, gpu_id: str, *aliases: str) -> Snapshot:
    """The catalog with one more card."""
    facts = {**card(gpu_id), "aliases": list(aliases)}
    facts["memory"]["bandwidth_bytes_per_second"] = 3e12
    with writing(engine) as connection:
        apply_changes(connection, [Change(CatalogKind.GPU, gpu_id, facts)], "tests", "api", "a card")
    return newest(engine)


def by_verdict(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        rows = connection.execute(text("SELECT verdict, count(*) FROM measurement GROUP BY verdict"))
        return {row[0]: row[1] for row in rows}


def test_a_row_judged_by_an_older_catalog_is_not_stored(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    late = upload(catalog, unmatched_row())
    learned = learn(engine, "rtx-9090", "RTX 9090")
    store.add(upload(learned, row()), learned)

    with pytest.raises(StaleCatalogError):
        store.add(late, catalog)
    assert by_verdict(engine) == {"accepted": 1}


def test_rows_are_judged_again_in_batches(
    store: MeasurementStore, engine: Engine, catalog: Snapshot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measurement_settling, "ROWS_AT_ONCE", 2)
    store.add(upload(catalog, *(unmatched_row() for _ in range(7)), row()), catalog)
    learned = learn(engine, "rtx-9090", "RTX 9090")

    mark(engine, learned)
    assert pending_names(engine) == [("gpu", "rtx 9090")]
    assert not settle_some(engine, learned, seconds=1e-9)
    assert by_verdict(engine) == {"accepted": 3, "unmatched": 5}

    assert settle_some(engine, learned, seconds=10)
    assert by_verdict(engine) == {"accepted": 8}
    with engine.connect() as connection:
        probe = connection.execute(select(MEASUREMENT_PROBE)).one()
    assert (probe.accepted, probe.unmatched) == (8, 0)


def test_only_rows_of_names_that_lead_elsewhere_are_looked_at(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    store.add(upload(catalog, row(), unmatched_row()), catalog)

    mark(engine, learn(engine, "rtx-8080", "RTX 8080"))

    assert pending_names(engine) == []


def test_old_verdicts_do_not_hide_a_row_from_a_filter(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    store.add(upload(catalog, unmatched_row(), row()), catalog)
    asked = MeasurementFilter(verdicts=["quarantined"])

    assert find_measurements(engine, asked, 9) == []
    assert len(find_measurements(engine, asked, 9, [("gpu", "rtx 9090")])) == 1
    assert len(find_measurements(engine, asked, 9, None)) == 2


def test_a_database_of_before_holds_measurements_to_what_this_release_ships(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    known = dict(catalog.facts(CatalogKind.ENGINE, "none"))
    for block in ({}, {"measurements": {"margin": 0.5}}):
        put(engine, {name: facts for name, facts in known.items() if name != "measurements"} | block)
        before = newest(engine)

        store.add(upload(before, row(), row(values={"bytes_per_second": 4e12}), impossible_row()), before)

    assert by_verdict(engine) == {"accepted": 3, "quarantined": 3}


def test_what_is_stored_is_judged_again_when_what_it_is_held_to_changes(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    store.add(upload(catalog, row(), unmatched_row()), catalog)
    known = dict(catalog.facts(CatalogKind.ENGINE, "none"))

    put(engine, {**known, "measurements": {**known["measurements"], "least_bandwidth": 0.99}})
    stricter = newest(engine)
    mark(engine, stricter)

    assert settle_some(engine, stricter, seconds=10)
    assert by_verdict(engine) == {"quarantined": 1, "unmatched": 1}


def put(engine: Engine, textbook: dict[str, Any]) -> None:
    with writing(engine) as connection:
        apply_changes(connection, [Change(CatalogKind.ENGINE, "none", textbook)], "tests", "files", "limits")


def test_another_process_that_moved_on_settles_for_all(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    store.add(upload(catalog, unmatched_row()), catalog)
    learned = learn(engine, "rtx-9090", "RTX 9090")

    assert store.settle(learned)
    assert store.settle(learned)
    assert not store.settle(catalog)
    assert by_verdict(engine) == {"accepted": 1}


def test_newer_rules_judge_what_an_older_release_stored(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    store.add(upload(catalog, row()), catalog)
    with writing(engine) as connection:
        connection.execute(text("UPDATE measurement_state SET rules = rules + 1"))

    store.add(upload(catalog, unmatched_row()), catalog)

    assert pending_names(engine) == [("gpu", "rtx 9090")]
    assert not store.settle(catalog)


def test_the_budget_of_a_token_holds_across_processes(engine: Engine, catalog: Snapshot) -> None:
    one, other = MeasurementStore(engine), MeasurementStore(engine)
    tight = Budget(rows=3, bytes=10**6)
    one.add(upload(catalog, row(), row(), budget=tight), catalog)

    with pytest.raises(OverBudgetError) as refused:
        other.add(upload(catalog, row(), row(), budget=tight), catalog)

    assert 1 <= refused.value.seconds <= 60
    assert other.add(upload(catalog, row(), budget=tight), catalog) == {}


def test_bytes_count_as_rows_do(store: MeasurementStore, catalog: Snapshot) -> None:
    store.add(upload(catalog, row(), budget=Budget(99, 150)), catalog)

    with pytest.raises(OverBudgetError):
        store.add(upload(catalog, row(), budget=Budget(99, 150)), catalog)


def test_an_upload_of_more_than_a_budget_passes_alone(store: MeasurementStore, catalog: Snapshot) -> None:
    assert store.add(upload(catalog, row(), row(), budget=Budget(1, 1)), catalog) == {}


def test_times_and_ids_are_stored_as_the_tables_have_them(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    sent = row(measured_at="2026-01-01T00:00:00.25+05:00")
    store.add(upload(catalog, sent), catalog)

    with engine.connect() as connection:
        found = connection.execute(select(MEASUREMENT).where(MEASUREMENT.c.id == UUID(sent["id"]))).one()

    assert found.measured_at == datetime(2025, 12, 31, 19, 0, 0, 250_000, tzinfo=UTC)
    assert (found.probe_id, found.verdict) == (UUID(sent["probe_id"]), "accepted")


def test_a_repeat_writes_no_row(store: MeasurementStore, engine: Engine, catalog: Snapshot) -> None:
    sent = row(id=str(uuid4()))

    first = store.add(upload(catalog, sent), catalog)
    again = store.add(upload(catalog, sent), catalog)

    assert (first, list(again)) == ({}, [UUID(sent["id"])])
    assert by_verdict(engine) == {"accepted": 1}


def test_of_rows_that_arrive_twice_at_once_only_the_new_ones_are_counted(
    store: MeasurementStore, engine: Engine, catalog: Snapshot
) -> None:
    first, second, third = row(), unmatched_row(), row()
    store.add(upload(catalog, first, second), catalog)

    # Judged as new, since nobody had stored them when it was looked.
    late = store.add(upload(catalog, third, second, first), catalog)

    assert set(late) == {UUID(first["id"]), UUID(second["id"])}
    with engine.connect() as connection:
        probe = connection.execute(select(MEASUREMENT_PROBE)).one()
        assert (probe.accepted, probe.unmatched, probe.quarantined) == (2, 1, 0)
    assert by_verdict(engine) == {"accepted": 2, "unmatched": 1}
