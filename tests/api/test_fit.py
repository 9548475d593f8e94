"""`/fit` over HTTP."""

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.api.limits import SPANS
from tests.api.asking import QUESTION, strict

if TYPE_CHECKING:
    from flask.testing import FlaskClient

TEXTBOOK: dict[str, Any] = {
    "model": "llama-2-7b",
    "parameters": 7.0e9,
    "weight_dtype": "fp16",
    "kv_dtype": "fp16",
    "context_tokens": 4096,
    "memory_bytes": 80_000_000_000,
    "reserve_bytes": 4_000_000_000,
}
# What engine `none` takes of the numbers, for asking at their limits.
EXTREME = [
    *("context_tokens", "context_limit_tokens", "batch_size", "tensor_parallel", "pipeline_parallel", "data_parallel"),
    *("memory_bytes", "memory_used_by_others_bytes", "reserve_bytes", "kv_cache_bytes", "memory_utilization"),
    *("parameters", "weight_bytes", "bandwidth_bytes_per_second", "peak_flops_per_second", "shared_prefix_tokens"),
]


def test_it_works(client: "FlaskClient") -> None:
    answer = client.post("/fit", json=TEXTBOOK).get_json()

    assert answer["max_sequences"] == 28
    assert answer["fits"] is True


@pytest.mark.parametrize("question", [QUESTION, TEXTBOOK, {**QUESTION, "expert_parallel": False, "kv_dtype": "int8"}])
def test_get_and_post_give_the_same_bytes(client: "FlaskClient", question: dict[str, Any]) -> None:
    query = {name: json.dumps(value) if not isinstance(value, str) else value for name, value in question.items()}

    assert client.get("/fit", query_string=query).data == client.post("/fit", json=question).data


@pytest.mark.parametrize(
    "name, spelled",
    [
        *(("memory_bytes", "80e9"), ("reserve_bytes", "4.5E+9"), ("context_tokens", "4e3"), ("memory_bytes", "8e10")),
        *(("memory_bytes", "1e999999"), ("context_tokens", "0e0")),
    ],
)
def test_a_whole_number_with_an_exponent_is_one_by_query_and_by_body(
    client: "FlaskClient", name: str, spelled: str
) -> None:
    rest = {key: value for key, value in TEXTBOOK.items() if key != name}
    body = f"{json.dumps(rest)[:-1]}, {json.dumps(name)}: {spelled}}}"
    by_query = client.get("/fit", query_string={**rest, name: spelled})
    by_body = client.post("/fit", data=body, content_type="application/json")

    assert by_query.status_code == by_body.status_code == (422 if spelled in {"1e999999", "0e0"} else 200)
    if by_query.status_code == 200:
        assert by_query.data == by_body.data
        assert by_query.get_json()["question"][name] == int(float(spelled))


def test_entries_of_a_list_may_have_exponents(client: "FlaskClient") -> None:
    asked = {**CARDS, "gpus_memory_bytes": "24e9,12e9"}
    by_query = client.get("/fit", query_string=asked)

    assert by_query.data == client.post("/fit", json={**asked, "gpus_memory_bytes": [24e9, 12e9]}).data
    assert by_query.get_json()["question"]["gpus_memory_bytes"] == [24_000_000_000, 12_000_000_000]


def test_an_answer_is_one_line_of_json(client: "FlaskClient") -> None:
    answer = client.get("/fit", query_string=QUESTION)

    assert answer.content_type == "application/json"
    assert answer.data.endswith(b"}\n")
    assert answer.data.count(b"\n") == 1


def test_keys_keep_the_order_of_the_contract(client: "FlaskClient") -> None:
    answer = client.get("/fit", query_string=QUESTION).get_json()

    assert list(answer)[:6] == ["question", "taken", "model", "gpu", "gpus", "engine"]
    assert list(answer)[-2:] == ["catalog_revision", "calibration_revision"]


CARDS = {"model": "llama-3.1-8b-instruct", "engine": "llama.cpp", "context_tokens": 4096}


def test_cards_are_listed_between_commas_in_a_query(client: "FlaskClient") -> None:
    by_query = client.get("/fit", query_string={**CARDS, "gpus": "rtx-4090,NVIDIA GeForce RTX 3060"})
    by_body = client.post("/fit", json={**CARDS, "gpus": ["rtx-4090", "NVIDIA GeForce RTX 3060"]})

    assert by_query.status_code == 200
    assert by_query.data == by_body.data
    assert [card["id"] for card in by_query.get_json()["gpus"]] == ["rtx-4090", "rtx-3060-12gb"]


def test_a_tag_depends_on_every_card(client: "FlaskClient") -> None:
    queries = ("rtx-4090,rtx-3060-12gb", "rtx-3060-12gb,rtx-4090", "rtx-4090,rtx-4090")
    tags = [client.get("/fit", query_string={**CARDS, "gpus": cards}).headers["ETag"] for cards in queries]

    assert len(set(tags)) == 3


@pytest.mark.parametrize(
    "cards,pointer",
    [
        (["rtx-4090", "rtx-4091"], "/gpus/1"),
        (["rtx-4090", ""], "/gpus/1"),
        (["rtx-4090", 3060], "/gpus/1"),
        ([], "/gpus"),
        ("rtx-4090", "/gpus"),
        (["l4"] * 65, "/gpus"),
    ],
)
def test_a_card_that_is_none_is_named_by_its_place(client: "FlaskClient", cards: object, pointer: str) -> None:
    refused = client.post("/fit", json={**CARDS, "gpus": cards})

    assert refused.status_code == 422
    assert [error["pointer"] for error in refused.get_json()["errors"]] == [pointer]


def test_an_unknown_card_is_answered_with_the_nearest(client: "FlaskClient") -> None:
    refused = client.post("/fit", json={**CARDS, "gpus": ["rtx-4090", "rtx-4091"]}).get_json()

    assert "rtx-4090" in refused["errors"][0]["nearest"]


@pytest.mark.parametrize("sizes", [[0], [1.5], ["x"], [2**51], [1, -1]])
def test_memory_of_a_device_has_the_range_of_memory(client: "FlaskClient", sizes: list[object]) -> None:
    refused = client.post("/fit", json={**CARDS, "gpus_memory_bytes": sizes})

    assert refused.status_code == 422
    assert refused.get_json()["errors"][0]["pointer"].startswith("/gpus_memory_bytes/")


def test_a_number_without_a_fraction_is_the_integer(client: "FlaskClient") -> None:
    bodies = [json.dumps(TEXTBOOK).replace("7000000000.0", spelt) for spelt in ("7e9", "7000000000", "7000000000.0")]

    assert len({client.post("/fit", data=body, content_type="application/json").data for body in bodies}) == 1


def test_a_config_is_answered_without_being_stored(client: "FlaskClient") -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_attention_heads": 32,
        "num_hidden_layers": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 4096,
        "torch_dtype": "float16",
    }

    answer = client.post("/fit", json={"config": config, "gpu": "a100-sxm-80gb"}).get_json()

    assert answer["model"]["id"] is None
    assert answer["question"]["config"] == config
    assert answer["kv_bytes_per_token"] == 524_288


def test_head_is_get_without_the_body(client: "FlaskClient") -> None:
    get, head = client.get("/fit", query_string=QUESTION), client.head("/fit", query_string=QUESTION)

    assert head.data == b""
    for name in ("Content-Type", "Content-Length", "ETag", "Cache-Control"):
        assert head.headers[name] == get.headers[name]


def test_options_lists_the_methods(client: "FlaskClient") -> None:
    response = client.options("/fit")

    assert response.status_code == 200
    assert set(response.headers["Allow"].split(", ")) == {"GET", "HEAD", "OPTIONS", "POST"}


def test_more_memory_never_holds_fewer_sequences(client: "FlaskClient") -> None:
    held = [
        client.post("/fit", json={**TEXTBOOK, "memory_bytes": memory}).get_json()["max_sequences"]
        for memory in range(10_000_000_000, 200_000_000_000, 9_999_999_999)
    ]

    assert held == sorted(held)


def test_a_longer_context_never_holds_more_sequences(client: "FlaskClient") -> None:
    held = [
        client.post("/fit", json={**TEXTBOOK, "context_tokens": context}).get_json()["max_sequences"]
        for context in (1, 2, 3, 100, 101, 4095, 4096, 4097, 1 << 20, 1 << 31)
    ]

    assert held == sorted(held, reverse=True)


def test_a_smaller_cache_type_never_holds_fewer_tokens(client: "FlaskClient") -> None:
    held = [
        client.post("/fit", json={**TEXTBOOK, "kv_dtype": name}).get_json()["kv_capacity_tokens"]
        for name in ("fp32", "fp16", "int8", "int4")
    ]

    assert held == sorted(held)


def extremes(name: str) -> st.SearchStrategy[float]:
    span = SPANS[name]
    least = 5e-324 if span.above_least else int(span.least)
    greatest = int(span.greatest)
    return st.sampled_from([least, 1, greatest, *([least + 1, greatest - 1] if name != "memory_utilization" else [])])


@given(changes=st.fixed_dictionaries({}, optional={name: extremes(name) for name in EXTREME}))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_number_at_its_limits_is_answered_or_refused_in_strict_json(
    client: "FlaskClient", changes: dict[str, float]
) -> None:
    for path in ("/fit", "/traffic"):
        response = client.post(path, json={**QUESTION, **changes})

        assert response.status_code in {200, 422}, response.text
        strict(response.data)
