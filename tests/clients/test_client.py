"""The SDK against the real application."""

import copy
import pickle
from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from flask import Flask

from kvquote_client import Client, Conflict, InvalidInput, NotAllowed, NotFound, Refused
from tests.api.desk import card, opened_desk
from tests.api.desk import fill as fill_desk
from tests.api.probing import impossible_row, invalid_row, new_lab, row, unmatched_row
from tests.clients.serving import served
from tests.databases import Databases

QUESTION: dict[str, Any] = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}
CONFIG = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}


@pytest.fixture(scope="module")
def desk(sqlite: Databases) -> Iterator[Client]:
    """A client that may write the catalog, of a service of this module's own."""
    with sqlite.migrated() as url:
        fill_desk(url)
        with opened_desk(url) as desk, served(desk.app) as address:
            token = desk.writer["Authorization"].removeprefix("Bearer ")
            with Client(address, token) as client:
                yield client


@pytest.fixture(scope="module")
def lab(sqlite: Databases) -> Iterator[Client]:
    """A client that may upload."""
    with sqlite.migrated() as url, new_lab(url) as lab, served(lab.app) as address:
        client = Client(address, lab.probe["Authorization"].removeprefix("Bearer "))
        yield client
        client.close()


def asked_bare(app: Flask, path: str, question: object) -> dict[str, Any]:
    answer: dict[str, Any] = app.test_client().post(path, json=question).get_json()
    return answer


def test_fit_gives_what_the_service_answers(kvquote: Client, app: Flask) -> None:
    answer = kvquote.fit(**QUESTION)

    assert answer.raw == asked_bare(app, "/fit", QUESTION)
    assert answer.max_sequences == 28
    assert answer.model.id == "llama-2-7b"
    assert answer.gpu is not None
    assert sum(part.bytes for part in answer.ledger.parts) == answer.ledger.memory_bytes
    assert answer.levers[0].gain == answer.levers[0].max_sequences - 28
    assert answer.shortage is None


def test_a_question_that_does_not_fit_is_an_answer(kvquote: Client) -> None:
    answer = kvquote.fit(model="llama-2-70b", gpu="a100-sxm-80gb")

    assert not answer.fits
    assert answer.shortage is not None
    assert answer.shortage.missing_bytes > 0


def test_traffic_gives_what_the_service_answers(kvquote: Client, app: Flask) -> None:
    question = {**QUESTION, "curve_batch_sizes": [1, 28]}
    answer = kvquote.traffic(**question)

    assert answer.raw == asked_bare(app, "/traffic", question)
    assert answer.curve is not None
    assert [point.batch_size for point in answer.curve] == [1, 28]
    assert answer.step is not None
    assert answer.step.seconds == answer.time_per_output_token_seconds


def test_a_card_that_is_nowhere_is_asked_by_its_memory(kvquote: Client) -> None:
    answer = kvquote.fit(config=CONFIG, memory_bytes=8_000_000_000)

    assert answer.gpu is None
    assert answer.model.id is None


def test_an_answer_is_frozen_and_can_be_kept(kvquote: Client) -> None:
    answer = kvquote.fit(**QUESTION)

    with pytest.raises(FrozenInstanceError):
        answer.max_sequences = 1000  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(answer)) == copy.deepcopy(answer) == answer
    assert "max_sequences=28" in repr(answer)


def test_the_past_is_asked_with_a_time(kvquote: Client) -> None:
    now = datetime.now(UTC)

    assert kvquote.fit(**QUESTION, as_of=now).catalog_revision == 1
    assert kvquote.gpus.get("a10", as_of=now).id == "a10"
    with pytest.raises(Refused):
        kvquote.fit(**QUESTION, as_of=now + timedelta(days=1))
    with pytest.raises(InvalidInput, match="offset"):
        kvquote.fit(**QUESTION, as_of=datetime(2026, 1, 1))  # noqa: DTZ001 - that is the point


def test_a_refusal_names_what_is_wrong_and_what_is_near(kvquote: Client) -> None:
    with pytest.raises(Refused) as caught:
        kvquote.fit(model="llama-2-7b", gpu="a10", kv_dtype="fp7")

    assert caught.value.status == 422
    assert caught.value.errors[0]["pointer"] == "/kv_dtype"
    assert "fp8" in caught.value.errors[0]["nearest"]
    assert caught.value.request_id


def test_a_name_that_this_release_does_not_know_is_left_to_the_service(kvquote: Client) -> None:
    with pytest.raises(Refused, match="kv_dtyp"):
        kvquote.fit(model="llama-2-7b", gpu="a10", kv_dtyp="fp8")  # type: ignore[call-arg]


@pytest.mark.parametrize("limit", [1, 7, 500])
def test_a_list_gives_every_row_once_whatever_a_page_holds(kvquote: Client, limit: int) -> None:
    rows = [gpu.id for gpu in kvquote.gpus.list(limit=limit, vendor=["amd", "apple"])]

    assert rows == sorted(set(rows))
    assert set(rows) == {gpu.id for gpu in kvquote.gpus.list() if gpu.vendor in {"amd", "apple"}}


def test_a_list_can_be_taken_page_by_page_and_gone_on_with(kvquote: Client) -> None:
    first = next(kvquote.gpus.list(limit=3).pages())

    assert len(first.items) == 3
    assert first.catalog_revision == 1
    assert first.next_cursor is not None
    assert next(iter(kvquote.gpus.list(limit=3, cursor=first.next_cursor))).id > first.items[-1].id


def test_filters_are_written_as_the_service_reads_them(kvquote: Client) -> None:
    found = list(kvquote.gpus.list(mig=False, min_memory_bytes=140e9, vendor="nvidia"))

    assert found
    assert all(gpu.memory_bytes and gpu.memory_bytes >= 140e9 and not gpu.mig for gpu in found)


@pytest.mark.parametrize("resource", ["models", "gpus", "instances", "dtypes", "engines"])
def test_each_resource_shows_its_entries_and_their_history(kvquote: Client, resource: str) -> None:
    listed = getattr(kvquote, resource)
    first = next(iter(listed.list()))
    entry = listed.get(first.id)

    assert entry.id == first.id
    assert entry.facts
    assert entry.etag
    assert [change.action for change in listed.revisions(first.id)] == ["created"]


def test_a_hub_id_is_a_name_too(kvquote: Client) -> None:
    model = kvquote.models.get("meta-llama/Llama-2-7b-hf")

    assert model.id == "llama-2-7b"
    assert model.cache_layers is not None
    assert model.cache_layers[0].layers == tuple(range(32))


@pytest.mark.parametrize("name", ["", ".", "..", "\ud800"])
def test_a_name_that_is_none_never_becomes_another_address(kvquote: Client, name: str) -> None:
    with pytest.raises(InvalidInput):
        kvquote.gpus.get(name)


@pytest.mark.parametrize("name", ["nope", "a/../b", "../gpus", "?q=1", "#x", "%2e%2e", "é", "a b", "x" * 300])
def test_a_name_that_nothing_answers_to_is_not_found(kvquote: Client, name: str) -> None:
    with pytest.raises(NotFound):
        kvquote.gpus.get(name)


def test_a_config_is_inspected(kvquote: Client) -> None:
    seen = kvquote.models.inspect(CONFIG)

    assert seen.architecture == "llama"
    assert sum(module.parameters for module in seen.modules) == seen.parameters


def test_the_service_says_how_it_is(kvquote: Client) -> None:
    assert kvquote.alive()
    assert {check.name: check.status for check in kvquote.ready().checks}["database"] == "ok"
    assert "kvquote_catalog_revision" in kvquote.metrics()
    assert kvquote.problem("not-found").status == 404


def test_a_service_that_is_not_ready_says_what_is_missing(client_with_nothing: Client) -> None:
    ready = client_with_nothing.ready()

    assert ready.status != "ready"
    assert [check.name for check in ready.checks if check.status != "ok"]


@pytest.fixture
def client_with_nothing(sqlite: Databases) -> Iterator[Client]:
    from service.app import create_app
    from service.settings import Settings

    with sqlite.empty() as url:
        app = create_app(Settings(database_url=url, log_level="critical"))
        with served(app) as address, Client(address) as client:
            yield client


def test_an_entry_is_created_changed_and_deleted_by_who_saw_it(desk: Client) -> None:
    created = desk.gpus.put("mine", card("mine"), etag=None)
    changed = desk.gpus.put("mine", {**created.facts, "name": "Mine"}, etag=created.etag)

    assert changed.name == "Mine"
    assert changed.etag != created.etag
    with pytest.raises(Conflict):
        desk.gpus.delete("mine", etag=str(created.etag))
    desk.gpus.delete("mine", etag=str(changed.etag))
    with pytest.raises(NotFound):
        desk.gpus.get("mine")


def test_who_thinks_to_create_does_not_overwrite(desk: Client) -> None:
    with pytest.raises(Conflict):
        desk.gpus.put("a10", card("a10"), etag=None)


def test_a_measured_fact_is_overwritten_only_by_who_says_so(desk: Client) -> None:
    before = desk.gpus.get("a100-sxm-80gb")
    memory = {**before.facts["memory"], "visible_source": "typed"}
    with pytest.raises(Refused):
        desk.gpus.put("a100-sxm-80gb", {**before.facts, "memory": memory}, etag=before.etag)


def test_a_model_is_imported_from_its_config(desk: Client) -> None:
    made = desk.models.import_("somebody/Small-1B", CONFIG, licence="apache-2.0")

    assert made.id == "small-1b"
    assert made.licence == "apache-2.0"
    assert desk.models.get("somebody/Small-1B").etag == made.etag


def test_writing_needs_a_token(kvquote: Client) -> None:
    with pytest.raises(NotAllowed):
        kvquote.gpus.put("mine", card("mine"), etag=None)
    with pytest.raises(NotAllowed):
        kvquote.measurements.upload([row()])


def test_each_row_of_an_upload_has_its_verdict(lab: Client) -> None:
    good = row()
    sent = lab.measurements.upload([good, unmatched_row(), impossible_row(), invalid_row(), good])

    assert [item.verdict for item in sent.items] == ["accepted", "unmatched", "quarantined", "rejected", "duplicate"]
    assert sent.items[3].errors[0].pointer
    assert {verdict: count for verdict, count in sent.counts.items() if count} == dict.fromkeys(
        ("accepted", "unmatched", "quarantined", "rejected", "duplicate"), 1
    )
    assert lab.measurements.get(good["id"]).verdict == "accepted"


def test_a_row_without_an_id_gets_one(lab: Client) -> None:
    nameless = {name: value for name, value in row().items() if name != "id"}
    sent = lab.measurements.upload([nameless])

    assert sent.items[0].verdict == "accepted"
    assert UUID(str(sent.items[0].id)).version == 4


def test_an_upload_of_any_size_goes_in_as_many_as_it_takes(lab: Client) -> None:
    rows = [row(id=uuid4(), measured_at=datetime(2026, 11, 1, tzinfo=UTC)) for _ in range(2100)]
    sent = lab.measurements.upload(iter(rows))

    assert [item.id for item in sent.items] == [str(each["id"]) for each in rows]
    assert sent.counts["accepted"] == 2100


def test_nothing_is_uploaded_for_nothing(lab: Client) -> None:
    sent = lab.measurements.upload([])

    assert sent.items == ()
    assert sent.counts == {}


def test_one_row_is_put_under_its_id_and_has_its_verdict(lab: Client) -> None:
    good = row()

    assert lab.measurements.put(good).verdict == "accepted"
    assert lab.measurements.put(good).verdict == "duplicate"
    with pytest.raises(Conflict):
        lab.measurements.put({**good, "values": {"bytes_per_second": 1e12, "access": "read"}})
    with pytest.raises(Refused, match="bytes_per_second"):
        lab.measurements.put(invalid_row())


def test_measurements_and_probes_are_listed(lab: Client) -> None:
    lab.measurements.upload([row(), unmatched_row()])
    listed = list(lab.measurements.list(verdict="unmatched", kind=["memory_bandwidth", "matmul_rate"], limit=1))

    assert listed
    assert {each.verdict for each in listed} == {"unmatched"}
    assert next(iter(lab.probes())).measurements >= 2


def test_what_has_no_method_can_be_asked_for(kvquote: Client) -> None:
    assert kvquote.request("GET", "/openapi.json").body["openapi"]
