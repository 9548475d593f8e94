"""What a reading becomes before it is kept: a row of the contract that names no machine."""

import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest

from kvquote_probe.names import ModelName, is_plain, model_name
from kvquote_probe.readings import Reading, thinned
from kvquote_probe.rows import encoded, make_row
from service.api.schemas.measurement_rows import read_row

PROBE = str(uuid4())
MOMENT = datetime(2026, 11, 30, 12, 0, 0, 250_000, UTC)

PUBLISHED = [
    ("meta-llama/Llama-3.1-8B-Instruct", ModelName("meta-llama/Llama-3.1-8B-Instruct")),
    ("Llama-3.1-8B", ModelName("Llama-3.1-8B")),
    ("opt-125m", ModelName("opt-125m")),
    ("/data/models/Qwen2.5-7B-Instruct/", ModelName("Qwen2.5-7B-Instruct")),
    ("models/Qwen3-30B-A3B", ModelName("Qwen3-30B-A3B")),
    ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc123", ModelName("Qwen/Qwen3-8B")),
    ("/m/Mixtral-8x7B-v0.1", ModelName("Mixtral-8x7B-v0.1")),
    ("D:\\models\\Phi-3-mini-3.8b", ModelName("Phi-3-mini-3.8b")),
    ("/m/Llama-3.2-3B-Instruct-Q4_K_M.gguf", ModelName("Llama-3.2-3B-Instruct", "q4_k_m")),
    ("gemma-3-27b-it-IQ4_XS.gguf", ModelName("gemma-3-27b-it", "iq4_xs")),
    ("Qwen3-235B-A22B-UD-Q2_K_XL-00001-of-00002.gguf", ModelName("Qwen3-235B-A22B", "q2_k_xl")),
    ("tinyllama-1.1b.f16.gguf", ModelName("tinyllama-1.1b", "f16")),
]
PRIVATE = [
    "/home/ada/finetunes/acme-support-bot",
    "models/acme-support-bot",
    "acme-support-bot",
    "./checkpoint-5000",
    "~/llama",
    "s3://bucket/Llama-3.1-8B",
    "http://node-17.internal/Llama-3.1-8B",
    "/mnt/0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10",
    "ada@node-17:/Llama-3.1-8B",
    "/models/acme.gguf",
    "a\nb",
    "",
    "x" * 5000,
    None,
    7,
    ["Llama-3.1-8B"],
]


def reading(**more: Any) -> Reading:  # noqa: ANN401 - parts of any type
    return Reading(**{"kind": "engine_capacity", "values": {"kv_capacity_tokens": 4096}, **more})


@pytest.mark.parametrize("given, expected", PUBLISHED)
def test_a_published_name_is_found_in_what_an_engine_calls_its_model(given: str, expected: ModelName) -> None:
    assert model_name(given) == expected


@pytest.mark.parametrize("given", PRIVATE)
def test_a_folder_of_somebodys_own_is_no_name(given: object) -> None:
    assert model_name(given) == ModelName(None)


@pytest.mark.parametrize("given", [name for name, _ in PUBLISHED] + [name for name in PRIVATE if isinstance(name, str)])
def test_whatever_is_taken_for_a_name_may_leave_the_machine(given: str) -> None:
    found = model_name(given).model

    assert found is None or is_plain(found)


def test_a_row_is_one_that_the_service_reads() -> None:
    setup = {"model": "meta-llama/Llama-3.1-8B", "config": {"hidden_size": 8, "_name_or_path": "/m/x"}}
    row = make_row(
        reading(setup=setup, samples=(1.0, 2.0), gpu={"name": "NVIDIA L4", "count": 2}, software={"engine": "vllm"}),
        PROBE,
        MOMENT,
    )

    read = read_row(json.loads(encoded(row)), 3)

    assert read.faults == []
    assert read.id == row["id"]
    assert row["measured_at"] == "2026-11-30T12:00:00.250Z"
    assert row["setup"]["config"] == {"hidden_size": 8}


def test_each_row_has_an_id_of_its_own_that_is_a_random_uuid() -> None:
    first, second = (UUID(make_row(reading(), PROBE)["id"]) for _ in range(2))

    assert first != second
    assert first.version == second.version == 4


def test_texts_that_name_the_machine_become_null_wherever_they_are() -> None:
    uuid = "GPU-7f6d1f8e-2f0e-4a53-8f0b-0c4f6f1f9b11"
    row = make_row(
        reading(
            setup={"model": "/home/ada/x", "attention_backend": "flashinfer", "config": {"a": ["/etc/x", "ok"]}},
            gpu={"name": uuid, "driver": "570.1"},
            software={"engine_version": "http://node/x"},
            values={"kv_capacity_tokens": 1, "note": "/var/x"},
        ),
        PROBE,
    )

    assert row["setup"] == {"attention_backend": "flashinfer", "config": {"a": [None, "ok"]}}
    assert row["gpu"] == {"name": None, "driver": "570.1"}
    assert "engine_version" not in row["software"]
    assert row["values"] == {"kv_capacity_tokens": 1, "note": None}


def test_a_thousand_samples_are_thinned_to_what_a_row_may_have() -> None:
    samples = tuple(float(number) for number in range(1000))

    kept = thinned(samples)

    assert len(kept) == 200
    assert (kept[0], kept[-1]) == (0.0, 999.0)
    assert kept == sorted(kept)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_json_has_no_word_for_is_refused_before_it_is_kept(value: float) -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encoded(make_row(reading(values={"kv_capacity_tokens": value}), PROBE))
