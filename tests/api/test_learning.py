"""From uploads to quotes: what is learned, kept, shown, forgotten and compared, on both databases."""

import re
import time
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import event, func, select

from service.api.schemas.calibrations import ACCURACY_COLUMNS, CALIBRATION_COLUMNS
from service.api.services import services_of
from service.domain.catalog import CatalogKind
from service.storage.catalog import Change, apply_changes
from service.storage.database import writing
from service.storage.measurement_tables import LEARNING_SAMPLE
from service.storage.thinning import thin
from tests.api.desk import stored_facts
from tests.api.school import QUESTION, School
from tests.contract.test_answers_fit_their_schemas import validator
from tests.domain.agreement import parts
from tests.fleet import GIB, H100, RELEASE, capacity_row, fleet, memory_row, rate_row

BEYOND = 1.0 * GIB


def samples_of(school: School) -> int:
    with services_of(school.lab.app).engine.connect() as connection:
        return connection.scalar(select(func.count()).select_from(LEARNING_SAMPLE)) or 0


def change_catalog(school: School, path: str, **facts: Any) -> None:  # noqa: ANN401  # as facts are
    kind, entry_id = path.split("/")
    change = Change(CatalogKind(kind), entry_id, {**stored_facts(f"{kind}s/{entry_id}"), **facts})
    with writing(services_of(school.lab.app).engine) as connection:
        apply_changes(connection, [change], "tests", "api", "a change")
    services_of(school.lab.app).keeper.refresh()


def stable(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer without what repeats the question's own words for calibration and time."""
    return {name: value for name, value in answer.items() if name not in {"question", "taken"}}


def test_a_fleet_s_uploads_change_the_next_quote(school: School) -> None:
    before = school.fit()
    school.teach(list(fleet(BEYOND, wrong=[-9.0 * GIB, 4.0 * GIB, 40.0 * GIB])))

    after = school.fit()

    assert (before["calibration"], before["calibration_revision"]) == (None, 0)
    assert after["calibration_revision"] == 1
    assert after["calibration"]["probes"] in {17, 18}
    lost = parts(before)["kv_cache"] - parts(after)["kv_cache"]
    assert lost == pytest.approx(BEYOND, rel=0.1)
    assert stable(school.fit("&calibration=off")) == stable(before)


def test_calibrated_answers_are_what_clients_were_promised(school: School) -> None:
    rates = [rate_row(p, "memory_bandwidth", bytes_per_second=2.2e12, access="read") for p in range(1, 6)]
    school.teach([*fleet(BEYOND), *(memory_row(p, 84_929_347_584) for p in range(1, 6)), *rates])
    spec = school.got("/openapi.json")

    for path in ("/fit", "/traffic"):
        answer = school.got(f"{path}?{QUESTION}")
        validator(spec, path).validate(answer)
        assert answer["calibration_revision"] == 1
    assert school.got(f"/traffic?{QUESTION}")["efficiency"]["source"] == "measured"
    assert {row["quantity"] for row in school.fit()["calibration"]["learned"]} == {"visible_memory", "reserve"}
    assert set(school.values()[0]) == set(CALIBRATION_COLUMNS)
    assert set(school.got("/accuracy")["items"][0]) == set(ACCURACY_COLUMNS)


def test_a_tag_is_another_once_something_was_learned(school: School) -> None:
    client = school.lab.client
    tag = client.get(f"/fit?{QUESTION}").headers["ETag"]
    assert client.get(f"/fit?{QUESTION}", headers={"If-None-Match": tag}).status_code == 304

    school.teach(list(fleet(BEYOND)))

    assert client.get(f"/fit?{QUESTION}", headers={"If-None-Match": tag}).status_code == 200


def test_the_past_is_answered_with_what_had_been_learned_by_then(school: School) -> None:
    first = school.fit()
    before = datetime.now(UTC)
    school.teach(list(fleet(BEYOND)))
    second, between = school.fit(), datetime.now(UTC)
    time.sleep(0.01)
    school.teach(list(fleet(3.0 * GIB, nodes=40, at=datetime(2026, 11, 20, tzinfo=UTC), number=1)))
    third = school.fit()

    def at(moment: datetime) -> dict[str, Any]:
        return stable(school.fit(f"&as_of={moment.isoformat().replace('+00:00', 'Z')}"))

    assert at(before) == stable(first)
    assert at(between) == stable(second)
    assert stable(third) != stable(second)
    assert third["calibration_revision"] == second["calibration_revision"] + 1


def test_learning_again_from_nothing_new_writes_nothing(school: School) -> None:
    school.teach(list(fleet(BEYOND)))

    assert school.learn() == school.learn() == 1


def test_one_loud_probe_fills_and_moves_nothing(school: School) -> None:
    school.teach(list(fleet(BEYOND)))
    before = school.fit()
    loud = [capacity_row(999, 30.0 * GIB, number=number) for number in range(300)]

    school.teach(loud)

    assert parts(school.fit())["kv_cache"] == pytest.approx(parts(before)["kv_cache"], abs=64 << 20)
    assert samples_of(school) == 20 + 8


def test_clocks_that_run_ahead_do_not_stay_the_newest(school: School) -> None:
    ahead = datetime.now(UTC) + timedelta(hours=20)
    school.teach(list(fleet(BEYOND, at=ahead)))

    newest = school.fit()["calibration"]["as_of"]
    assert datetime.fromisoformat(newest) <= datetime.now(UTC)


def test_quarantined_and_unmatched_rows_teach_nothing(school: School) -> None:
    rows = [memory_row(probe, 300 * GIB) for probe in range(1, 6)]
    rows += [memory_row(probe, 80 * GIB, gpu="RTX 9090") for probe in range(6, 12)]

    school.teach(rows)

    assert samples_of(school) == 0
    assert school.values() == []


def test_rows_are_taken_up_when_the_catalog_learns_their_gpu(own_school: School) -> None:
    total = 24 << 30
    own_school.teach([memory_row(probe, total, gpu="RTX 9090") for probe in range(1, 6)])
    facts = stored_facts("gpus/a10")

    change_catalog(own_school, "gpu/a10", aliases=[*facts["aliases"], "RTX 9090"])
    own_school.lab.client.get("/measurements")
    own_school.learn()

    assert {value["gpu"] for value in own_school.values("quantity=visible_memory")} == {"a10"}


def test_samples_are_compared_again_when_the_catalog_changes_their_card(own_school: School) -> None:
    total = 84_929_347_584
    own_school.teach([memory_row(probe, total) for probe in range(1, 6)])
    memory = {**stored_facts(f"gpus/{H100}")["memory"], "visible_bytes": total - (1 << 30)}

    change_catalog(own_school, f"gpu/{H100}", memory=memory)
    waiting = own_school.fit()
    own_school.learn()
    compared = own_school.fit()

    assert waiting["question"]["memory_bytes"] == total - (1 << 30)
    assert any("compared again" in line for line in waiting["assumptions"])
    assert compared["question"]["memory_bytes"] == total


def test_rows_that_turn_out_to_be_impossible_are_unlearned(own_school: School) -> None:
    total = 84_929_347_584
    own_school.teach([memory_row(probe, total) for probe in range(1, 6)])
    assert samples_of(own_school) == 5
    memory = {**stored_facts(f"gpus/{H100}")["memory"], "advertised_bytes": 40_000_000_000, "visible_bytes": 1 << 35}

    change_catalog(own_school, f"gpu/{H100}", memory=memory)
    assert own_school.lab.listed()[0]["verdict"] == "quarantined"
    own_school.learn()

    assert samples_of(own_school) == 0
    assert own_school.values() == []
    assert own_school.fit()["calibration"] is None


def test_a_row_that_breaks_the_comparison_is_passed_by(
    school: School, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from service.storage import learning, scores

    def fails(*_: object) -> None:
        raise RuntimeError("nobody thought of this row")

    monkeypatch.setattr(learning, "observe", fails)
    monkeypatch.setattr(scores, "score", fails)
    school.teach(list(fleet(BEYOND, nodes=3)))
    monkeypatch.undo()
    school.teach(list(fleet(BEYOND, nodes=4, number=1)))

    assert samples_of(school) == 4
    assert sum("cannot be compared (RuntimeError)" in record.message for record in caplog.records) == 3


def test_two_that_learn_at_once_take_each_row_once(school: School) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from service.storage.learning import learn_some

    having = services_of(school.lab.app)
    school.lab.upload(*fleet(BEYOND), *(memory_row(probe, 84_929_347_584) for probe in range(1, 30)))
    having.keeper.refresh()
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda _: learn_some(having.engine, having.keeper.current()), range(3)))
    having.keeper.refresh()

    assert samples_of(school) == 20 + 29
    assert school.fit()["calibration"]["probes"] == 20
    assert sum(group["measurements"] for group in school.got("/accuracy")["items"]) == 20


def test_what_is_learned_does_not_hang_on_the_order_of_uploads(school: School) -> None:
    rows = [row for number in range(3) for row in fleet(BEYOND, nodes=8, wrong=[9.0 * GIB], number=number)]
    school.teach(rows)
    once = [{**value, "known_from": None} for value in school.values()]
    school.clear()

    school.teach([*reversed(rows), *rows])

    assert [{**value, "known_from": None} for value in school.values()] == once


def test_thinning_deletes_rows_and_no_knowledge(school: School) -> None:
    many = [row for number in range(20) for row in fleet(BEYOND, nodes=6, number=number)]
    school.teach([*many, memory_row(1, 80 << 30, gpu="RTX 9090")])
    before, known = school.fit(), school.values()
    engine = services_of(school.lab.app).engine

    counted = thin(engine, timedelta(0), dry_run=True)
    thinned = thin(engine, timedelta(0))
    school.learn()

    assert counted == thinned == (6 * 12, 6 * 8 + 1)
    assert school.lab.stored() == 6 * 8 + 1
    assert (school.fit(), school.values()) == (before, known)
    assert thin(engine, timedelta(0)).deleted == 0


def test_rows_that_were_not_looked_at_yet_are_not_thinned(school: School) -> None:
    school.lab.upload(*fleet(BEYOND))

    assert thin(services_of(school.lab.app).engine, timedelta(0)).deleted == 0


def test_calibrations_are_listed_with_rungs_that_are_refused(school: School) -> None:
    school.teach(list(fleet(BEYOND)))

    rows = school.values(f"gpu={H100}&quantity=reserve")

    by_rung = {row["rung"]: row for row in rows}
    finest = by_rung["gpu+engine+version+layout+model_class+batch"]
    assert (finest["usable"], finest["probes"], finest["engine_version"]) == (True, 20, RELEASE)
    assert finest["error_after"] < finest["error_before"]
    assert by_rung["gpu+engine"]["refusal"] == "all of one kind, which says nothing about others"
    assert school.values("usable=true&quantity=reserve") == [finest]
    assert school.values("engine=sglang") == []


def test_calibrations_keep_their_history(school: School) -> None:
    school.teach(list(fleet(BEYOND)))
    school.teach(list(fleet(3.0 * GIB, nodes=40, number=1)))

    history = school.values("history=true&usable=true&quantity=reserve")

    assert [row["revision"] for row in history] == [1, 2]
    assert history[0]["known_until"] == history[1]["known_from"]
    assert history[1]["known_until"] is None


def test_lists_are_paged_and_written_as_csv(school: School) -> None:
    school.teach([*fleet(BEYOND), *(memory_row(probe, 84_929_347_584) for probe in range(1, 6))])
    whole = school.values()

    path, items = "/calibrations?limit=2", []
    while path:
        page = school.got(path)
        items += page["items"]
        path = f"/calibrations?limit=2&cursor={page['next_cursor']}" if page["next_cursor"] else ""
    assert items == whole
    csv = school.lab.client.get("/calibrations?format=csv").text.splitlines()
    assert len(csv) == len(whole) + 1


def test_what_was_learned_is_read_from_tables_that_do_not_grow_with_rows(school: School) -> None:
    school.teach([*fleet(BEYOND), *(memory_row(probe, 84_929_347_584) for probe in range(1, 6))])
    engine, statements = services_of(school.lab.app).engine, []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    event.listen(engine, "before_cursor_execute", note)
    try:
        for path in ("/accuracy", "/accuracy?gpu=h100-sxm-80gb", "/calibrations", "/calibrations?history=true"):
            school.got(path)
        school.fit()
        school.lab.client.get("/metrics")
    finally:
        event.remove(engine, "before_cursor_execute", note)

    read = {table for statement in statements for table in re.findall(r"(?:FROM|JOIN) (\w+)", statement)}
    assert read == {"accuracy_group", "calibration_value", "calibration_revision"}


@pytest.mark.parametrize(
    "path",
    ["/calibrations?rung=planet", "/calibrations?quantity=love", "/accuracy?cursor=AAAAAAAAAAAA", "/accuracy?x=1"],
)
def test_what_cannot_be_asked_is_refused(school: School, path: str) -> None:
    assert school.lab.client.get(path).status_code == 422


def test_accuracy_compares_with_what_was_known_before_and_never_with_itself(school: School) -> None:
    school.teach(list(fleet(BEYOND)))
    school.teach(list(fleet(BEYOND, nodes=10, number=1)))

    (group,) = school.got("/accuracy")["items"]

    assert (group["gpu"], group["engine"], group["engine_version"], group["family"]) == (H100, "vllm", RELEASE, "llama")
    assert (group["measurements"], group["learned"], group["probes"]) == (30, 10, 20)
    assert group["median_error"] == pytest.approx(BEYOND / (55 * GIB), rel=0.25)
    assert group["learned_typical_error"] < group["typical_error"] / 4


def test_a_drift_is_flagged_and_carried_by_the_metrics(school: School) -> None:
    school.teach(list(fleet(12.0 * GIB, nodes=2, number=1)) + list(fleet(12.0 * GIB, nodes=2, number=2)))
    assert school.got("/accuracy")["items"][0]["drifting"] is False

    school.teach(list(fleet(12.0 * GIB, nodes=2, number=3)) + list(fleet(12.0 * GIB, nodes=2, number=4)))

    assert school.got("/accuracy")["items"][0]["drifting"] is True
    metrics = school.lab.client.get("/metrics").text
    assert 'kvquote_accuracy_drifting_groups{engine="vllm"} 1.0' in metrics
    assert "kvquote_calibration_revision 2.0" in metrics


def test_a_ceiling_between_passed_and_failed_is_met(school: School) -> None:
    answer = school.got(f"/fit?model=llama-2-7b&gpu={H100}&context_tokens=4096")["max_sequences"]
    ceiling = {
        **memory_row(1, 1),
        "kind": "batch_ceiling",
        "setup": {"model": "llama-2-7b", "context_tokens": 4096},
        "values": {"passed_sequences": answer, "failed_sequences": answer + 1},
    }

    school.teach([ceiling])

    (group,) = school.got("/accuracy")["items"]
    assert (group["figure"], group["engine"], group["median_error"]) == ("passed_sequences", "none", 0)


def test_a_command_is_understood_once_the_catalog_knows_its_model_and_then_found_by_it(own_school: School) -> None:
    change_catalog(own_school, "engine/vllm", flags=stored_facts("engines/flags/vllm"))
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
    row = {**capacity_row(1, BEYOND, model="qwen3-8b"), "setup": {"command": command}}
    own_school.teach([row, {**capacity_row(2, BEYOND), "setup": {"command": "vllm serve x --no-such-flag"}}])
    assert {one["verdict"] for one in own_school.lab.listed()} == {"unmatched"}

    change_catalog(own_school, "model/qwen3-8b")
    (found,) = own_school.lab.listed("verdict=accepted")
    own_school.learn()

    assert (found["id"], found["model_id"]) == (row["id"], "qwen3-8b")
    assert [one["id"] for one in own_school.lab.listed("model=qwen/qwen3-8b")] == [row["id"]]
    assert samples_of(own_school) == 1
    (waiting,) = own_school.lab.listed("verdict=unmatched")
    assert "no-such-flag" in waiting["detail"]


@pytest.mark.parametrize("model", [{}, {"model": "llama-3.1-8b-instruct"}], ids=["alone", "beside a model"])
def test_a_command_is_judged_again_when_its_engine_learns(own_school: School, model: dict[str, str]) -> None:
    command = "vllm serve meta-llama/Llama-3.1-8B-Instruct --max-model-len 8192"
    own_school.teach([{**capacity_row(1, BEYOND), "setup": {"command": command, **model}}])
    assert own_school.lab.listed()[0]["verdict"] == "unmatched"

    change_catalog(own_school, "engine/vllm", flags=stored_facts("engines/flags/vllm"))
    own_school.lab.listed()
    own_school.learn()

    assert len(own_school.lab.listed("verdict=accepted&model=llama-3.1-8b-instruct")) == 1
    assert samples_of(own_school) == 1
