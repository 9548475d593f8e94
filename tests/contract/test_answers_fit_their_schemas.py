"""Answers are built as plain dicts; here they are held against the document that clients were promised."""

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from tests.api.asking import QUESTION

if TYPE_CHECKING:
    from flask.testing import FlaskClient

MIXED = {"model": "mixtral-8x7b-v0.1", "gpu": "h100-sxm-80gb", "tensor_parallel": 4, "context_tokens": 8192}
SLIDING = {"model": "gemma-2-9b", "gpu": "a100-sxm-80gb", "context_tokens": 8192, "kv_dtype": "int8"}
QUESTIONS: dict[str, dict[str, Any]] = {
    "plain": QUESTION,
    "experts on four GPUs": {**MIXED, "expert_parallel": True},
    "stages and replicas": {**MIXED, "tensor_parallel": 2, "pipeline_parallel": 2, "data_parallel": 2},
    "a sliding window": SLIDING,
    "no GPU": {"model": "llama-2-7b", "memory_bytes": 80_000_000_000},
    "cards of two kinds": {
        "model": "llama-3.1-8b-instruct",
        "engine": "llama.cpp",
        "context_tokens": 4096,
        "gpus": ["rtx-4090", "rtx-3060-12gb"],
    },
    "memory of two devices": {
        "model": "llama-3.1-8b-instruct",
        "engine": "llama.cpp",
        "context_tokens": 4096,
        "gpus_memory_bytes": [24_000_000_000, 12_000_000_000],
    },
    "too large": {"model": "llama-2-70b", "gpu": "a10"},
    "too large a batch": {**QUESTION, "batch_size": 100_000},
    "a byte": {**QUESTION, "memory_bytes": 1},
    "a shared prefix": {**QUESTION, "shared_prefix_tokens": 1000},
    "a longer limit": {**QUESTION, "context_limit_tokens": 100_000},
    "everything given": {
        **QUESTION,
        "parameters": 7.5e9,
        "memory_utilization": 0.5,
        "reserve_bytes": 0,
        "memory_used_by_others_bytes": 1,
        "bandwidth_bytes_per_second": 1e12,
        "peak_flops_per_second": 1e14,
        "memory_basis": "visible",
        "calibration": "off",
    },
    "a cache given": {**QUESTION, "kv_cache_bytes": 1_000_000_000},
    "weights given": {**QUESTION, "weight_bytes": 1_000_000_000.5},
    "a fraction of a parameter": {**QUESTION, "parameters": 7e9 + 0.5},
}
CURVES: dict[str, dict[str, Any]] = {
    "a curve": {**QUESTION, "curve_batch_sizes": [1, 2], "curve_context_tokens": [1, 4096]},
    "a curve without times": {**QUESTIONS["no GPU"], "curve_batch_sizes": [1]},
    "prompts": {**QUESTION, "prompt_tokens": 100, "prefill_sequences": 3},
}
ASKED = [
    *(pytest.param("/fit", question, id=f"fit: {name}") for name, question in QUESTIONS.items()),
    *(pytest.param("/traffic", question, id=f"traffic: {name}") for name, question in {**QUESTIONS, **CURVES}.items()),
]


def validator(spec: dict[str, Any], path: str) -> Draft202012Validator:
    """A validator of the path's answer that takes keys for faults which the document does not name."""
    closed = {**spec, "components": {**spec["components"], "schemas": {}}}
    for name, schema in spec["components"]["schemas"].items():
        closed["components"]["schemas"][name] = {**schema, "additionalProperties": False}
    registry = Registry().with_resource("urn:spec", Resource.from_contents(closed, DRAFT202012))
    pointer = spec["paths"][path]["post"]["responses"]["200"]["content"]["application/json"]["schema"]["$ref"]
    return Draft202012Validator({"$ref": f"urn:spec{pointer}"}, registry=registry)


@pytest.mark.parametrize("path, question", ASKED)
def test_an_answer_is_what_the_document_promises(
    client: "FlaskClient", spec: dict[str, Any], path: str, question: dict[str, Any]
) -> None:
    response = client.post(path, json=question)

    assert response.status_code == 200, response.text
    faults = [f"{error.json_path}: {error.message}" for error in validator(spec, path).iter_errors(response.get_json())]
    assert faults == []


@pytest.mark.parametrize("path, question", ASKED)
def test_keys_come_in_the_order_of_the_document(
    client: "FlaskClient", spec: dict[str, Any], path: str, question: dict[str, Any]
) -> None:
    name = "FitAnswer" if path == "/fit" else "TrafficAnswer"

    answer = client.post(path, json=question).get_json()

    assert list(answer) == list(spec["components"]["schemas"][name]["properties"])
    assert list(answer["question"]) == list(answer["taken"])


@pytest.mark.parametrize("path", ["/readyz", "/livez", "/problems/too-deep"])
def test_the_small_answers_are_promised_too(client: "FlaskClient", spec: dict[str, Any], path: str) -> None:
    described = spec["paths"][path.replace("too-deep", "{name}")]["get"]["responses"]["200"]
    pointer = described["content"]["application/json"]["schema"]["$ref"]
    registry = Registry().with_resource("urn:spec", Resource.from_contents(spec, DRAFT202012))

    Draft202012Validator({"$ref": f"urn:spec{pointer}"}, registry=registry).validate(client.get(path).get_json())


def test_a_problem_is_promised_too(client: "FlaskClient", spec: dict[str, Any]) -> None:
    registry = Registry().with_resource("urn:spec", Resource.from_contents(spec, DRAFT202012))
    promised = Draft202012Validator({"$ref": "urn:spec#/components/schemas/Problem"}, registry=registry)

    for response in (client.get("/fit?modle=x"), client.get("/nothing"), client.put("/fit")):
        promised.validate(response.get_json())
