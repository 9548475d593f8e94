"""Every page and every entry of the whole catalog, held against the document that clients were promised."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

if TYPE_CHECKING:
    from flask.testing import FlaskClient

LISTS = ["/models", "/gpus", "/instances", "/dtypes", "/engines"]


def validator(spec: dict[str, Any], path: str) -> Draft202012Validator:
    """Of what GET answers under a path; a key that the document does not name is a fault."""
    closed = {**spec, "components": {**spec["components"], "schemas": {}}}
    for name, schema in spec["components"]["schemas"].items():
        closed["components"]["schemas"][name] = {**schema, "additionalProperties": False}
    registry = Registry().with_resource("urn:spec", Resource.from_contents(closed, DRAFT202012))
    content = spec["paths"][path]["get"]["responses"]["200"]["content"]
    pointer = content["application/json"]["schema"]["$ref"]
    return Draft202012Validator({"$ref": f"urn:spec{pointer}"}, registry=registry)


def faults(check: Draft202012Validator, answer: object) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in check.iter_errors(answer)]


def pages(client: "FlaskClient", path: str) -> Iterator[dict[str, Any]]:
    following = f"{path}?limit=100"
    while following:
        response = client.get(following)
        assert response.status_code == 200, response.text
        yield response.get_json()
        following = response.headers.get("Link", "").removeprefix("<").partition(">")[0]


@pytest.mark.parametrize("path", LISTS)
def test_every_page_is_what_the_document_promises(client: "FlaskClient", spec: dict[str, Any], path: str) -> None:
    check, seen = validator(spec, path), []
    for page in pages(client, path):
        assert faults(check, page) == []
        seen += [item["id"] for item in page["items"]]

    assert seen == sorted(set(seen))
    assert seen


@pytest.mark.parametrize("path", LISTS)
def test_every_entry_is_what_the_document_promises(client: "FlaskClient", spec: dict[str, Any], path: str) -> None:
    check = validator(spec, f"{path}/{{name}}")
    for page in pages(client, path):
        for item in page["items"]:
            entry = client.get(f"{path}/{item['id']}").get_json()
            assert faults(check, entry) == [], item["id"]
            assert {name: entry[name] for name in item} == item


@pytest.mark.parametrize("path", LISTS)
def test_keys_come_in_the_order_of_the_document(client: "FlaskClient", spec: dict[str, Any], path: str) -> None:
    item = client.get(f"{path}?limit=1").get_json()["items"][0]
    row, entry = {
        "/models": ("ModelRow", "ModelEntry"),
        "/gpus": ("GpuRow", "GpuEntry"),
        "/instances": ("InstanceRow", "InstanceEntry"),
        "/dtypes": ("DtypeRow", "DtypeEntry"),
        "/engines": ("EngineRow", "EngineEntry"),
    }[path]

    assert list(item) == list(spec["components"]["schemas"][row]["properties"])
    shown = client.get(f"{path}/{item['id']}").get_json()
    assert list(shown) == list(spec["components"]["schemas"][entry]["properties"])


@pytest.mark.parametrize("path", LISTS)
def test_history_is_promised_too(client: "FlaskClient", spec: dict[str, Any], path: str) -> None:
    item = client.get(f"{path}?limit=1").get_json()["items"][0]

    answer = client.get(f"{path}/{item['id']}/revisions").get_json()

    assert faults(validator(spec, f"{path}/{{name}}/revisions"), answer) == []
    assert len(answer["items"]) == 1


def test_a_model_without_a_normal_form_says_why(client: "FlaskClient") -> None:
    for page in pages(client, "/models"):
        for item in page["items"]:
            model = client.get(f"/models/{item['id']}").get_json()
            assert (model["cache_layers"] is None) == (model["modules"] is None) == bool(model["unread_reason"])
            assert item["has_reader"] or model["unread_reason"]


def test_modules_of_a_model_add_up_to_its_parameters(client: "FlaskClient") -> None:
    """Multi-token prediction counts beside; nothing else does."""
    compared = 0
    for page in pages(client, "/models"):
        for item in page["items"]:
            modules = client.get(f"/models/{item['id']}").get_json()["modules"]
            if modules is not None:
                counted = sum(module["parameters"] for module in modules if module["kind"] != "prediction")
                compared += counted == item["parameters"]
    assert compared > 300


def test_a_normal_form_says_who_reads_each_cache_and_how(client: "FlaskClient") -> None:
    seen: set[str] = set()
    for page in pages(client, "/models"):
        for item in page["items"]:
            model = client.get(f"/models/{item['id']}").get_json()
            for cache in model["cache_layers"] or ():
                assert (cache["query_heads"] > 0) == (cache["kind"] != "recurrent"), item["id"]
                assert cache["tokens_per_row"] >= 1
                seen |= {"compressed"} if cache["tokens_per_row"] > 1 else set()
                seen |= {"sparse"} if cache["read_limit_tokens"] is not None else set()
            for module in model["modules"] or ():
                assert module["layers"] == sorted(set(module["layers"]))
                assert module["count"] % max(1, len(module["layers"])) == 0, (item["id"], module["name"])
    assert seen == {"compressed", "sparse"}


def test_an_inspected_config_is_what_the_document_promises(client: "FlaskClient", spec: dict[str, Any]) -> None:
    content = spec["paths"]["/models/inspect"]["post"]["responses"]["200"]["content"]
    registry = Registry().with_resource("urn:spec", Resource.from_contents(spec, DRAFT202012))
    check = Draft202012Validator(
        {"$ref": f"urn:spec{content['application/json']['schema']['$ref']}"}, registry=registry
    )
    for name in ("llama-2-7b", "mixtral-8x7b-v0.1", "gemma-2-9b", "deepseek-v3"):
        config = client.get(f"/models/{name}").get_json()["facts"]["config"]
        assert faults(check, client.post("/models/inspect", json={"config": config}).get_json()) == []
