"""`/traffic` over HTTP."""

from typing import TYPE_CHECKING

from tests.api.asking import QUESTION

if TYPE_CHECKING:
    from flask.testing import FlaskClient


def test_it_works(client: "FlaskClient") -> None:
    question = {**QUESTION, "parameters": 7.0e9, "weight_dtype": "fp16", "kv_dtype": "fp16", "batch_size": 28}

    answer = client.post("/traffic", json=question).get_json()

    assert answer["weight_traffic_bytes"] == 14_000_000_000
    assert answer["cache_traffic_bytes"] == 60_129_542_144


def test_a_list_in_a_query_is_comma_separated(client: "FlaskClient") -> None:
    curve = {"curve_batch_sizes": "1,8", "curve_context_tokens": "512,1024,2048"}
    in_json = {"curve_batch_sizes": [1, 8], "curve_context_tokens": [512, 1024, 2048]}

    asked = client.get("/traffic", query_string={**QUESTION, **curve})

    assert asked.data == client.post("/traffic", json={**QUESTION, **in_json}).data
    assert len(asked.get_json()["curve"]) == 6


def test_the_most_rows_are_answered(client: "FlaskClient") -> None:
    curves = {"curve_batch_sizes": list(range(1, 65)), "curve_context_tokens": list(range(1, 17))}

    answer = client.post("/traffic", json={**QUESTION, **curves}).get_json()

    assert len(answer["curve"]) == 1024


def test_without_a_gpu_bytes_are_answered_and_times_are_null(client: "FlaskClient") -> None:
    answer = client.post("/traffic", json={"model": "llama-2-7b", "memory_bytes": 80_000_000_000}).get_json()

    assert answer["total_traffic_bytes"] > 0
    assert answer["step"] is None
    assert answer["prefill"]["seconds"] is None
