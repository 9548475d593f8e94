"""Uploading measurements and finding them again, on both databases."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from random import Random
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings, strategies

from tests.api.asking import problem
from tests.api.desk import bearer
from tests.api.probing import (
    H100,
    Lab,
    impossible_row,
    invalid_row,
    row,
    unmatched_row,
    verdicts,
)

if TYPE_CHECKING:
    pass


def test_each_row_has_its_verdict_in_the_order_sent(lab: Lab) -> None:
    rows = [row(), unmatched_row(), impossible_row(), invalid_row()]

    answer = lab.upload(*rows)

    assert answer.status_code == 200
    assert verdicts(answer) == ["accepted", "unmatched", "quarantined", "rejected"]
    assert [item["id"] for item in answer.get_json()["items"]] == [sent["id"] for sent in rows]
    assert answer.get_json()["counts"] == {
        "accepted": 1,
        "duplicate": 0,
        "conflict": 0,
        "unmatched": 1,
        "quarantined": 1,
        "rejected": 1,
    }


def test_answers_have_the_keys_that_are_promised(lab: Lab) -> None:
    from service.api.schemas.measurements import MEASUREMENT, MEASUREMENTS_PAGE, PROBES_PAGE, UPLOAD_RESULT, ProbeRow

    sent = row()
    uploaded, listed, probes = lab.upload(sent), lab.client.get("/measurements"), lab.client.get("/probes")

    for answer, schema in ((uploaded, UPLOAD_RESULT), (listed, MEASUREMENTS_PAGE), (probes, PROBES_PAGE)):
        assert set(answer.get_json()) == set(schema.fields)
        assert schema.validate(answer.get_json()) == {}
    assert list(lab.client.get(f"/measurements/{sent['id']}").get_json()) == list(MEASUREMENT.fields)
    assert list(probes.get_json()["items"][0]) == list(ProbeRow().fields)


@pytest.mark.parametrize(
    "more, said",
    [
        ({"setup": {"gpu": "a10"}}, "another device"),
        ({"setup": {"engine": "sglang"}, "software": {"engine": "vLLM"}}, "contradicts software.engine"),
        ({"gpu": {"name": H100, "memory_bytes": 24_000_000_000}}, "mig_profile"),
        ({"gpu": {"name": H100, "count": 1}, "setup": {"tensor_parallel": 4}}, "gpu.count 1 contradicts setup"),
        ({"gpu": {"name": H100, "count": 4}, "setup": {"tensor_parallel": 4, "pipeline_parallel": 2}}, "split over 8"),
        ({"gpu": {"name": H100, "count": 1}, "setup": {"gpu_count": 2}}, "split over 2"),
        ({"gpu": {"name": H100, "count": 1}, "setup": {"gpus": ["a10", "h100-sxm-80gb"]}}, "split over 2"),
        ({"setup": {"gpus": ["a10", "a10"]}}, "setup.gpus does not list h100-sxm-80gb, which gpu.name is"),
    ],
)
def test_a_row_that_contradicts_itself_is_kept_apart(lab: Lab, more: dict[str, object], said: str) -> None:
    answer = lab.upload(row(**more))

    assert verdicts(answer) == ["quarantined"]
    assert said in answer.get_json()["items"][0]["detail"]


@pytest.mark.parametrize(
    "more",
    [
        {"setup": {"gpu": "h100-sxm-80gb"}},
        {"gpu": {"name": H100, "count": 2}, "setup": {"gpus": [H100, "h100-sxm-80gb"]}},
        {"setup": {"gpus": ["h100-sxm-80gb", "a10"]}},
        {"setup": {"engine": "tensorrt-llm"}, "software": {"engine": "TensorRT_LLM"}},
        {"gpu": {"name": H100, "memory_bytes": 84_000_000_000}},
        {"gpu": {"name": H100, "count": 8}, "setup": {"tensor_parallel": 4, "pipeline_parallel": 2}},
        {"gpu": {"name": H100, "count": 8}, "setup": {"tensor_parallel": 2}},
        {"gpu": {"name": H100, "count": 4}, "setup": {"tensor_parallel": 4, "data_parallel": 2, "gpu_count": 8}},
        {"gpu": {"name": H100, "count": 4}, "setup": {"tensor_parallel": 4, "decode_context_parallel": 2}},
        {"gpu": {"name": H100}, "setup": {"tensor_parallel": 4}},
    ],
)
def test_a_row_that_says_the_same_twice_is_accepted(lab: Lab, more: dict[str, object]) -> None:
    assert verdicts(lab.upload(row(**more))) == ["accepted"]


def test_a_rank_of_an_all_reduce_may_tell_of_its_own_card(lab: Lab) -> None:
    more = {"kind": "all_reduce", "values": {"bytes": 1 << 28, "ranks": 4, "seconds": 0.002}}

    assert verdicts(lab.upload(row(**more, gpu={"name": H100, "count": 1}, setup={"tensor_parallel": 4}))) == [
        "accepted"
    ]


@pytest.mark.parametrize("order", [1, -1])
def test_rows_of_one_upload_are_read_apart_where_parts_are_only_equal_to_python(lab: Lab, order: int) -> None:
    rows = [row(setup={"tensor_parallel": 1}), row(setup={"tensor_parallel": True})][::order]

    assert verdicts(lab.upload(*rows)) == ["accepted", "rejected"][::order]


@pytest.mark.parametrize("part", ["gpu", "kind", "probe_id", "measured_at"])
def test_a_text_that_looks_like_what_another_row_has_is_none(lab: Lab, part: str) -> None:
    good = row()

    assert verdicts(lab.upload(good, row(**{part: str(good[part]), "id": 1}))) == ["accepted", "rejected"]
    assert verdicts(lab.upload(row(), row(**{part: repr(good[part])}))) == ["accepted", "rejected"]
    assert verdicts(lab.upload(row(), row(**{part: [good[part]]}))) == ["accepted", "rejected"]


ANY_JSON = strategies.recursive(
    strategies.none() | strategies.booleans() | strategies.integers() | strategies.floats() | strategies.text(),
    lambda inner: strategies.lists(inner, max_size=4) | strategies.dictionaries(strategies.text(), inner, max_size=4),
    max_leaves=6,
)
PLACES = (
    *(("id",), ("kind",), ("measured_at",), ("gpu",), ("gpu", "name"), ("gpu", "mig_profile"), ("software", "engine")),
    *(("setup",), ("setup", "model"), ("setup", "config"), ("setup", "tensor_parallel"), ("values",), ("samples",)),
    *(("values", "bytes_per_second"), ("values", "new"), ("anything",)),
)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(place=strategies.sampled_from(PLACES), value=ANY_JSON)
def test_whatever_stands_in_a_row_has_a_verdict(lab: Lab, place: tuple[str, ...], value: object) -> None:
    sent = row(software={}, setup={})
    target = sent if len(place) == 1 else sent[place[0]]
    target[place[-1]] = value
    body = json.dumps({"items": [sent, row()]}).replace("NaN", "1e999").replace("Infinity", "1e999")

    answer = lab.client.post("/measurements", data=body, content_type="application/json", headers=lab.probe)

    assert answer.status_code == 200, answer.text
    assert verdicts(answer)[1] == "accepted"


def test_verdicts_that_are_not_plain_say_why(lab: Lab) -> None:
    accepted, unmatched, quarantined, rejected = lab.upload(
        row(), unmatched_row(), impossible_row(), invalid_row()
    ).get_json()["items"]

    assert accepted == {"id": accepted["id"], "verdict": "accepted", "detail": None, "errors": []}
    assert "RTX 9090" in unmatched["detail"]
    assert "2.56 times" in quarantined["detail"]
    assert [error["pointer"] for error in rejected["errors"]] == ["/values/bytes_per_second"]


def test_the_same_upload_twice_leaves_the_database_as_once_did(lab: Lab) -> None:
    rows = [row(), unmatched_row(), impossible_row()]
    lab.upload(*rows)
    before = lab.listed(), lab.client.get("/probes").get_json()

    assert lab.counts(*rows) == {"duplicate": 3}
    assert (lab.listed(), lab.client.get("/probes").get_json()) == before


def test_a_repeat_is_the_same_row_in_whatever_form_it_is_written(lab: Lab) -> None:
    sent = row(software=None)
    lab.upload(sent)
    again = {
        **dict(reversed(sent.items())),
        "id": sent["id"].upper(),
        "measured_at": "2026-11-01T15:00:00.000+05:00",
        "values": {"access": "read", "bytes_per_second": 2_900_000_000_000},
        "setup": None,
    }

    assert lab.counts(again) == {"duplicate": 1}


def test_another_row_with_the_same_id_is_a_conflict_and_the_first_stays(lab: Lab) -> None:
    first = row()
    lab.upload(first)

    other = {**first, "software": {"torch": "2.9"}}
    assert lab.counts(other, first) == {"conflict": 1, "duplicate": 1}
    assert [stored["software"] for stored in lab.listed()] == [None]


def test_an_id_twice_in_one_upload_is_stored_once(lab: Lab) -> None:
    first = row()

    answer = lab.upload(first, first, {**first, "kind": "power"})

    assert verdicts(answer) == ["accepted", "duplicate", "conflict"]
    assert lab.stored() == 1


def test_changed_content_under_a_new_id_is_a_new_row(lab: Lab) -> None:
    first = row()
    lab.upload(first)

    assert lab.counts({**first, "id": str(uuid4()), "software": {"engine_version": "0.12"}}) == {"accepted": 1}


@pytest.mark.parametrize("spelling", ["urn:uuid:{}", "{{{}}}"])
def test_other_spellings_of_an_id_are_rejected(lab: Lab, spelling: str) -> None:
    found = lab.upload(row(id=spelling.format(uuid4()))).get_json()["items"][0]

    assert (found["id"], found["verdict"], found["errors"][0]["pointer"]) == (None, "rejected", "/id")


def test_putting_says_with_the_status_what_became_of_the_row(lab: Lab) -> None:
    good = row()

    stored = lab.put(good)

    assert (stored.status_code, stored.headers["Location"]) == (201, f"/measurements/{good['id']}")
    assert lab.put(good).get_json() == {"id": good["id"], "verdict": "duplicate", "detail": None, "errors": []}
    problem(lab.put({**good, "kind": "power"}), 409, "measurement-conflict")
    assert lab.put(unmatched_row()).status_code == lab.put(impossible_row()).status_code == 201
    found = problem(lab.put(invalid_row()), 422, "validation-error")
    assert found["errors"][0]["pointer"] == "/values/bytes_per_second"


def test_the_id_may_stand_in_the_path_alone(lab: Lab) -> None:
    good = row()
    measurement_id = good.pop("id")

    assert lab.put(good, measurement_id).status_code == 201
    assert lab.client.get(f"/measurements/{measurement_id}").get_json()["id"] == measurement_id
    assert problem(lab.put(row(), measurement_id), 422, "validation-error")["errors"][0]["pointer"] == "/id"


def test_a_path_that_is_no_id_leads_nowhere(lab: Lab) -> None:
    problem(lab.client.get("/measurements/7"), 404, "not-found")
    problem(lab.client.get(f"/measurements/{uuid4()}"), 404, "not-found")
    problem(lab.put(row(), "7"), 422, "validation-error")


def test_it_takes_a_token_of_its_own(lab: Lab) -> None:
    from service.storage.tokens import Scope

    body = {"items": [row()]}

    problem(lab.client.post("/measurements", json=body), 401, "token-required")
    catalog_writer = bearer(lab.app, Scope.CATALOG_WRITE)
    problem(lab.client.post("/measurements", json=body, headers=catalog_writer), 403, "missing-scope")
    problem(lab.client.put(f"/measurements/{uuid4()}", json=row(), headers=catalog_writer), 403, "missing-scope")
    assert lab.stored() == 0


def test_a_row_is_read_back_as_it_was_sent(lab: Lab) -> None:
    sent = row(
        measured_at="2026-01-01T00:00:00+05:00",
        gpu={"name": H100, "memory_bytes": 85_029_615_043, "count": 1, "driver": "550.54"},
        software={"probe": "0.1.0", "torch": "2.9.0"},
        setup={"model": "meta-llama/Llama-2-7b-hf", "tensor_parallel": 1},
        values={"bytes_per_second": 2.9e12, "access": "read", "new_name": {"a": [1, 2.5, None]}},
        samples=[2.9e12, 2.8e12],
    )
    lab.upload(sent, sent_at="2026-01-01T00:00:00Z")

    found = lab.client.get(f"/measurements/{sent['id']}").get_json()

    assert found["measured_at"] == "2025-12-31T19:00:00Z"
    assert {name: found[name] for name in ("probe_id", "kind", "gpu", "software", "setup", "values", "samples")} == {
        name: sent[name] for name in ("probe_id", "kind", "gpu", "software", "setup", "values", "samples")
    }
    assert (found["gpu_id"], found["model_id"]) == ("h100-sxm-80gb", "llama-2-7b")
    assert found["clock_skew_seconds"] < 0


def test_a_clock_in_the_future_is_quarantined_and_never_the_newest(lab: Lab) -> None:
    ahead = (datetime.now(UTC) + timedelta(hours=25)).isoformat()

    assert lab.counts(row(measured_at=ahead)) == {"quarantined": 1}
    probe = lab.client.get("/probes").get_json()["items"][0]
    assert probe["last_measured_at"] == probe["last_received_at"]


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00", "2026-13-01T00:00:00Z"])
def test_a_time_outside_the_calendar_is_rejected(lab: Lab, moment: str) -> None:
    assert lab.upload(row(measured_at=moment)).get_json()["items"][0]["errors"][0]["pointer"] == "/measured_at"


def test_floods_of_the_same_rows_in_any_order_store_each_once(lab: Lab) -> None:
    rows = [row(probe_id=str(uuid4())) for _ in range(30)] + [unmatched_row(), impossible_row()]

    def send(seed: int) -> int:
        mixed = rows.copy()
        Random(seed).shuffle(mixed)
        answer = lab.app.test_client().post("/measurements", json={"items": mixed}, headers=lab.probe)
        assert answer.status_code == 200, answer.text
        return sum(answer.get_json()["counts"][verdict] for verdict in ("accepted", "unmatched", "quarantined"))

    with ThreadPoolExecutor(12) as threads:
        stored = list(threads.map(send, range(36)))

    assert sum(stored) == lab.stored() == 32
    assert sum(probe["measurements"] for probe in lab.client.get("/probes?limit=100").get_json()["items"]) == 32


def test_verdicts_are_counted_for_the_scrape(lab: Lab) -> None:
    def counted() -> float:
        lines = lab.client.get("/metrics").text.splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith('kvquote_measurements_total{verdict="u')
        )

    before = counted()
    lab.upload(unmatched_row())
    lab.put(unmatched_row())

    assert counted() == before + 2
