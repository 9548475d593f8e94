"""Whole answers over HTTP, frozen: a change to any figure, word or key of them is a decision (`make golden`)."""

from typing import Any

import pytest
from flask.testing import FlaskClient

from tests.golden_files import Golden

A100 = {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}
QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "fit/llama-2-7b": ("/fit", A100),
    "fit/nominal-count": ("/fit", A100 | {"parameters": 7_000_000_000, "reserve_bytes": 4_000_000_000}),
    "fit/does-not-fit": ("/fit", {"model": "llama-2-70b", "gpu": "a100-sxm-80gb", "batch_size": 4}),
    "fit/batch-too-large": ("/fit", A100 | {"batch_size": 154}),
    "fit/eight-ways": (
        "/fit",
        {
            "model": "llama-3.1-70b-instruct",
            "gpu": "h100-sxm-80gb",
            "context_tokens": 8192,
            "tensor_parallel": 4,
            "data_parallel": 2,
        },
    ),
    "fit/uneven-stages": ("/fit", {"model": "gemma-2-9b", "gpu": "l4", "context_tokens": 8192, "pipeline_parallel": 4}),
    "fit/window": (
        "/fit",
        {"model": "mistral-7b-v0.1", "gpu": "a10g", "context_tokens": 32768, "memory_basis": "visible"},
    ),
    "fit/experts": (
        "/fit",
        {"model": "qwen3-30b-a3b", "gpu": "h200-sxm-141gb", "weight_dtype": "fp8", "kv_dtype": "fp8"},
    ),
    "fit/config": (
        "/fit",
        {
            "config": {
                "model_type": "llama",
                "hidden_size": 2048,
                "intermediate_size": 5632,
                "num_hidden_layers": 22,
                "num_attention_heads": 32,
                "num_key_value_heads": 4,
                "vocab_size": 32000,
                "max_position_embeddings": 2048,
            },
            "memory_bytes": 8_000_000_000,
        },
    ),
    "traffic/llama-2-7b": ("/traffic", A100 | {"batch_size": 28}),
    "traffic/experts": (
        "/traffic",
        {"model": "mixtral-8x7b-v0.1", "gpu": "h100-sxm-80gb", "gpu_count": 2, "batch_size": 8},
    ),
    "traffic/curve": ("/traffic", A100 | {"curve_batch_sizes": [1, 28], "curve_context_tokens": [1024, 4096]}),
    "traffic/without-rates": ("/traffic", {"model": "llama-2-7b", "memory_bytes": 80_000_000_000}),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_an_answer_is_as_it_was(client: FlaskClient, golden: Golden, name: str) -> None:
    path, question = QUESTIONS[name]
    answer = client.post(path, json=question).get_json()
    # The catalog's revision counts loads of this database; it is not part of what the answer says.
    revisions = (
        answer.pop("catalog_revision"),
        answer["model"].pop("revision"),
        (answer["gpu"] or {}).pop("revision", 0),
    )
    assert all(revision is None or revision >= 0 for revision in revisions)
    golden(name, answer)


@pytest.mark.parametrize("name", [name for name in QUESTIONS if name != "fit/config"])
def test_get_and_post_give_the_same_bytes(client: FlaskClient, name: str) -> None:
    path, question = QUESTIONS[name]
    query = {key: ",".join(map(str, value)) if isinstance(value, list) else value for key, value in question.items()}
    assert client.get(path, query_string=query).data == client.post(path, json=question).data
