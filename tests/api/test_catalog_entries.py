"""One entry of the catalog: by any of its names, with its facts, its normal form and its history."""

from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from sqlalchemy.exc import OperationalError

from service.api.services import services_of
from service.storage.database import writing
from tests.api.asking import pointers, problem
from tests.api.desk import CARD, MACHINE, MODEL, Desk, fill, opened_desk, stored_facts
from tests.databases import Databases

ENTRIES = [CARD, MACHINE, MODEL, "/dtypes/fp8", "/engines/none"]


@pytest.fixture
def client(shared_desk: Desk) -> FlaskClient:
    return shared_desk.client


@pytest.mark.parametrize("path", ENTRIES)
def test_it_works(client: FlaskClient, path: str) -> None:
    response = client.get(path)

    entry = response.get_json()
    listed = client.get(f"{path[: path.index('/', 1)]}?limit=500").get_json()["items"]
    row = next(item for item in listed if item["id"] == entry["id"])
    assert {name: entry[name] for name in row} == row
    assert entry["facts"] == stored_facts(path.strip("/"))
    assert entry["aliases"] == entry["facts"].get("aliases", [])
    assert entry["revision"] == 1
    assert response.headers["Cache-Control"] == "private, max-age=0, must-revalidate"


@pytest.mark.parametrize(
    "path",
    [
        "/models/llama-2-7b",
        "/models/LLAMA-2-7B",
        "/models/meta-llama/Llama-2-7b-hf",
        "/models/meta-llama%2FLlama-2-7b-hf",
        "/models/Meta-Llama%2fllama-2-7b-HF",
        "/models/Llama-2-7b-hf",
    ],
)
def test_a_model_answers_to_every_name_it_has(client: FlaskClient, path: str) -> None:
    response = client.get(path)

    assert (response.status_code, response.get_json()["id"]) == (200, "llama-2-7b")
    assert response.headers["ETag"] == client.get("/models/llama-2-7b").headers["ETag"]


def test_a_device_answers_to_what_its_driver_calls_it(client: FlaskClient) -> None:
    assert client.get("/gpus/NVIDIA A100-SXM4-80GB").get_json()["id"] == "a100-sxm-80gb"
    assert client.get("/gpus/nvidia%20a100-sxm4-80gb").get_json()["id"] == "a100-sxm-80gb"


@pytest.mark.parametrize(
    "path, name, nearest",
    [
        ("/models/llama-2-7", "unknown-model", "llama-2-7b"),
        ("/models/meta-llama/Llama-2-7c-hf", "unknown-model", "llama-2-7b"),
        ("/gpus/a100-sxm", "unknown-gpu", "a100-sxm-80gb"),
        ("/instances/aws-p4de", "not-found", "aws-p4de-24xlarge"),
        ("/dtypes/fp61", "not-found", "fp16"),
        ("/engines/nonee", "not-found", "none"),
    ],
)
def test_what_is_not_there_is_answered_with_the_nearest(
    client: FlaskClient, path: str, name: str, nearest: str
) -> None:
    for suffix in ("", "/revisions"):
        found = problem(client.get(path + suffix), 404, name)
        assert nearest in found["errors"][0]["nearest"]
        assert "Did you mean" in found["detail"]


@pytest.mark.parametrize(
    "name",
    [
        "..%2f..%2fetc%2fpasswd", "../../etc/passwd", "%00", "a%00b", "/evil.com", "//evil.com", "%ff", "%ED%A0%80",
        "x" * 2000, "%E2%80%AE", "{{7*7}}", "__class__", "' OR 1=1--", "%2e%2e", ".",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["/models", "/gpus"])
@pytest.mark.parametrize("suffix", ["", "/revisions"])
def test_a_path_that_names_nothing_is_not_found(client: FlaskClient, kind: str, name: str, suffix: str) -> None:
    response = client.get(f"{kind}/{name}{suffix}")

    assert response.status_code == 404
    assert "Location" not in response.headers
    assert len(response.data) < 2000


def test_an_accent_is_one_name_however_it_was_typed(desk: Desk) -> None:
    assert desk.create("/gpus/cafe", aliases=["Caf\u00e9"]).status_code == 201

    for name in ("Caf%C3%A9", "cafe%CC%81", "CAF%C3%89"):
        assert desk.client.get(f"/gpus/{name}").get_json()["id"] == "cafe"


def test_an_entry_is_asked_nothing_but_when(client: FlaskClient) -> None:
    assert pointers(problem(client.get("/gpus/a10?format=csv"), 422, "validation-error")) == ["/format"]


@pytest.mark.parametrize("path", ENTRIES)
def test_who_has_the_entry_is_told_so(client: FlaskClient, path: str) -> None:
    tag = client.get(path).headers["ETag"]

    for given in (tag, f"W/{tag}", "*", f'"x", {tag}'):
        again = client.get(path, headers={"If-None-Match": given})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", tag)


def test_an_entry_that_the_client_has_is_not_parsed(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    tag = client.get(CARD).headers["ETag"]

    def fail(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr("service.storage.snapshot.parsed", fail)

    assert client.get(CARD, headers={"If-None-Match": tag}).status_code == 304


def test_the_tag_of_an_entry_outlives_changes_of_others(desk: Desk) -> None:
    tag = desk.client.get(CARD).headers["ETag"]
    desk.change("/gpus/a10", name="renamed")

    assert desk.client.get(CARD, headers={"If-None-Match": tag}).status_code == 304


def test_a_client_that_takes_no_json_is_told(client: FlaskClient) -> None:
    problem(client.get(CARD, headers={"Accept": "text/csv"}), 406, "not-acceptable")


def test_a_model_has_its_normal_form(client: FlaskClient) -> None:
    model = client.get(MODEL).get_json()

    (cache,) = model["cache_layers"]
    assert cache == {
        "kind": "full",
        "layers": list(range(32)),
        "kv_heads": 32,
        "key_width": 128,
        "value_width": 128,
        "window_tokens": None,
        "state_bytes": 0,
        "shared_with": [],
        "query_heads": 32,
        "tokens_per_row": 1,
        "read_limit_tokens": None,
    }
    names = ["name", "kind", "count", "shape", "parameters", "active_per_token", "layers"]
    assert [list(module) for module in model["modules"]] == [names] * len(model["modules"])
    assert {module["name"]: module["layers"] for module in model["modules"]}.items() >= {
        "embed_tokens": [],
        "q_proj": list(range(32)),
    }.items()
    assert sum(module["parameters"] for module in model["modules"]) == model["parameters"] == 6_738_415_616
    assert model["unread_reason"] is None


def test_a_model_that_no_reader_knows_says_so(desk: Desk) -> None:
    facts = stored_facts("models/llama-2-7b")
    facts |= {"id": "later", "hub_id": "someone/Later", "config": {**facts["config"], "model_type": "of-tomorrow"}}
    desk.put("/models/later", facts, if_none_match="*")

    model = desk.client.get("/models/later").get_json()

    assert (model["has_reader"], model["cache_layers"], model["modules"]) == (False, None, None)
    assert 'No reader knows the model_type "of-tomorrow"' in model["unread_reason"]


def test_history_tells_the_newest_first(desk: Desk) -> None:
    desk.change("/gpus/a10", name="renamed")
    desk.delete("/gpus/a10")
    desk.create("/gpus/a10", name="back")

    states = desk.client.get("/gpus/a10/revisions").get_json()["items"]

    assert [(state["revision"], state["action"], state["origin"]) for state in states] == [
        (4, "created", "api"),
        (3, "deleted", "api"),
        (2, "changed", "api"),
        (1, "created", "files"),
    ]
    assert [state["changes"] for state in states] == [[], [], ['name: "A10 24GB" -> "renamed"'], []]
    assert [state["facts"] and state["facts"]["name"] for state in states] == ["back", None, "renamed", "A10 24GB"]
    assert states[0]["author"].startswith("tests (token ")
    assert states[3]["author"] == "tests"
    assert states[0]["made_at"].endswith("Z")


def test_history_of_what_is_gone_is_still_there(desk: Desk) -> None:
    desk.delete("/gpus/a10")

    assert desk.client.get("/gpus/a10").status_code == 404
    assert [state["action"] for state in desk.client.get("/gpus/a10/revisions").get_json()["items"]] == [
        "deleted",
        "created",
    ]


@pytest.fixture
def sqlite_desk(sqlite: Databases) -> Iterator[Desk]:
    with sqlite.migrated() as url:
        fill(url)
        with opened_desk(url) as desk:
            yield desk


@pytest.mark.parametrize("value", ["X'FF00'", "CAST(X'62FF' AS TEXT)"])
def test_history_leaves_out_what_is_damaged(sqlite_desk: Desk, value: str) -> None:
    client = sqlite_desk.client
    sqlite_desk.change("/gpus/a10", name="renamed")
    with writing(services_of(sqlite_desk.app).engine) as connection:
        columns = ", ".join(f"{column} = {value}" for column in ("author", "origin", "summary", "made_at"))
        connection.exec_driver_sql(f"UPDATE catalog_revision SET {columns} WHERE id = 2")  # of this test's own

    newest, first = client.get("/gpus/a10/revisions").get_json()["items"]

    assert [newest[name] for name in ("made_at", "author", "origin", "summary")] == [None] * 4
    assert newest["changes"] == ['name: "A10 24GB" -> "renamed"']
    assert first["author"] == "tests"
    assert client.get("/gpus/a10/revisions?format=csv").text.splitlines()[1].startswith("2,,changed,,,")
    assert sqlite_desk.change("/gpus/a10", name="again").status_code == 200


def test_history_comes_in_pages_and_formats(desk: Desk) -> None:
    for number in range(3):
        desk.change("/gpus/a10", name=f"name {number}")

    first = desk.client.get("/gpus/a10/revisions?limit=2")
    second = desk.client.get("/gpus/a10/revisions", query_string={"cursor": first.get_json()["next_cursor"]})

    assert [state["revision"] for state in first.get_json()["items"]] == [4, 3]
    assert first.get_json()["items"][1]["changes"] == ['name: "name 0" -> "name 1"']
    assert first.headers["Link"].endswith('rel="next"')
    assert [state["revision"] for state in second.get_json()["items"]] == [2, 1]
    assert second.get_json()["next_cursor"] is None
    table = desk.client.get("/gpus/a10/revisions?format=csv").text.splitlines()
    assert table[0] == "revision,made_at,action,author,origin,summary"
    assert len(table) == 5


def test_history_is_found_by_an_alias_too(client: FlaskClient) -> None:
    by_alias = client.get("/models/meta-llama/Llama-2-7b-hf/revisions").get_json()

    assert by_alias["items"] == client.get("/models/llama-2-7b/revisions").get_json()["items"]


def test_history_needs_the_database_and_an_entry_does_not(client: FlaskClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: object) -> None:
        raise OperationalError("SELECT", {}, TimeoutError())

    monkeypatch.setattr("service.api.catalog_reads.entry_history", away)

    assert client.get(CARD).status_code == 200
    response = client.get(f"{CARD}/revisions")
    problem(response, 503, "database-unavailable")
    assert response.headers["Retry-After"] == "1"


def test_inspecting_a_config_gives_what_its_entry_has(client: FlaskClient) -> None:
    config = stored_facts("models/llama-2-7b")["config"]

    inspected = client.post("/models/inspect", json={"config": config}).get_json()

    entry = client.get(MODEL).get_json()
    for name in ("architecture", "parameters", "active_parameters", "context_tokens", "cache_layers", "modules"):
        assert inspected[name] == entry[name], name
    assert (inspected["weight_dtype"], inspected["kv_dtype"]) == ("fp16", "fp16")


def test_inspecting_stores_nothing_and_needs_no_token(desk: Desk) -> None:
    config = {**stored_facts("models/llama-2-7b")["config"], "_name_or_path": "someone/new"}

    assert desk.client.post("/models/inspect", json={"config": config}).status_code == 200
    assert desk.client.get("/models").get_json()["catalog_revision"] == 1
    assert desk.client.get("/models/someone/new").status_code == 404


@pytest.mark.parametrize(
    "body, name, pointer",
    [
        ({}, "validation-error", "/config"),
        ({"config": {}}, "invalid-config", "/config/model_type"),
        ({"config": []}, "validation-error", "/config"),
        ({"config": {"model_type": "of-tomorrow"}}, "unknown-architecture", "/config/model_type"),
        ({"config": {"model_type": "llama", "hidden_size": -1}}, "invalid-config", "/config/hidden_size"),
        ({"config": {"model_type": "llama"}, "store": True}, "validation-error", "/store"),
    ],
)
def test_a_config_that_cannot_be_read_is_refused(client: FlaskClient, body: object, name: str, pointer: str) -> None:
    assert pointers(problem(client.post("/models/inspect", json=body), 422, name)) == [pointer]


def test_an_unknown_family_may_be_inspected_as_a_decoder(client: FlaskClient) -> None:
    config = {**stored_facts("models/llama-2-7b")["config"], "model_type": "of-tomorrow"}

    inspected = client.post("/models/inspect", json={"config": config, "assume": "decoder"}).get_json()

    assert inspected["parameters"] == 6_738_415_616
    assert "taken as a standard decoder" in inspected["warnings"][0]
