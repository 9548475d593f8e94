"""What an upload tells that nobody else should read, and is therefore not kept."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from service.api.schemas.measurement_rows import SETUP
from tests.api.probing import Lab, new_lab, row, verdicts

if TYPE_CHECKING:
    from tests.databases import Databases


@pytest.fixture(scope="module")
def lab(sqlite: "Databases") -> Iterator[Lab]:
    """As for other uploads."""
    with sqlite.migrated() as url, new_lab(url) as lab:
        yield lab


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve m --api-key secret",
        "vllm serve m --api_key=secret",
        "sglang serve --model-path m --admin-api-key secret",
        "llama-server -m m --hf-token secret",
        "HF_TOKEN=secret vllm serve m",
        'docker run -e "OPENAI_API_KEY=secret" vllm/vllm-openai:v0.19.0 --model m',
        "docker run --env=HF_TOKEN=secret vllm/vllm-openai:v0.19.0 --model m",
        'HF_TOKEN="secret" vllm serve m',
        "export VLLM_API_KEY='secret'; vllm serve m",
        "hf_token=secret vllm serve m",
        "PGPASSWORD=secret vllm serve m",
        "AWS_ACCESS_KEY_ID=secret vllm serve m",
        "vllm serve m --apikey secret",
        "llama-server -hft secret -m m",
        """vllm serve m --kv-transfer-config '{"kv_connector_extra_config": {"api_key": "secret"}}'""",
        """curl -H 'Authorization: Basic secret' ; vllm serve m""",
        "vllm serve m --header 'Bearer secret-of-mine'",
        "vllm serve hf_abcdefghijklmnopqrstuvwxyz",
        "vllm serve ghp_abcdefghijklmnopqrstuvwxyz",
        "vllm serve sk-proj-abcdefghijklmnopqrst",
        "vllm serve nvapi-abcdefghijklmnopqrst",
        "vllm serve eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0",
        "CUDA_VISIBLE_DEVICES=GPU-3b241101-e2bb-4255-8caf-4136c566a962 vllm serve m",
        """vllm serve m --kv-transfer-config '{"kv_ip":"node7"}'""",
        "srun --nodelist=node[1-2] vllm serve m",
        "vllm serve m --host gpu17.corp.internal",
        "vllm serve m --host=gpu17 --port 8000",
        "vllm serve m --data-parallel-address 10.1.2.3",
        "python -m sglang.launch_server --model-path m --dist-init-addr node0:5000",
        "docker run --hostname gpu17 vllm/vllm-openai:v0.19.0 --model m",
        "VLLM_HOST_IP=gpu17 vllm serve m",
        "ssh gpu1 vllm serve Qwen/Qwen3-8B",
        "(base) me@gpu1:~$ vllm serve Qwen/Qwen3-8B",
        "[me@gpu1 ~]$ vllm serve Qwen/Qwen3-8B",
    ],
)
def test_a_command_that_would_tell_everybody_a_secret_or_a_machine_is_not_kept(lab: Lab, command: str) -> None:
    found = lab.upload(row(setup={"command": command}))

    assert found.get_json()["items"][0]["errors"][0]["pointer"] == "/setup/command"
    assert verdicts(found) == ["rejected"]
    assert "secret" not in found.text


@pytest.mark.parametrize(
    "command",
    [
        "vllm serve llama-2-7b --host 0.0.0.0 --port 8000 --tokenizer-mode auto --max-num-batched-tokens 8192",
        "vllm serve llama-2-7b --hf_overrides_of_long_name {}",
        "TOKENIZERS_PARALLELISM=false vllm serve llama-2-7b --host=localhost --api-server-count 2",
        "docker run --gpus all --ipc=host --network host -e HF_TOKEN vllm/vllm-openai:v0.19.0 --model llama-2-7b",
        "python -m sglang.launch_server --model-path llama-2-7b --dist-init-addr 127.0.0.1:5000 --nnodes 1",
        "llama-server -hf owner/llama-2-7b:Q4_K_M -c 8192 --host :: --no-host",
        "vllm serve llama-2-7b --allow-credentials --override-kv tokenizer.ggml.eos_token=int:3",
        """HF_TOKEN="" vllm serve llama-2-7b --kv-transfer-config '{"kv_ip":"127.0.0.1"}'""",
        "uvx vllm@latest serve Qwen/Qwen3-8B",
        "uvx vllm@0.19.0 serve Qwen/Qwen3-8B",
    ],
)
def test_a_command_that_names_no_machine_is_kept(lab: Lab, command: str) -> None:
    assert verdicts(lab.upload(row(setup={"command": command}))) != ["rejected"]


def test_the_folder_that_a_config_was_loaded_from_is_not_kept(lab: Lab) -> None:
    config = {"model_type": "llama", "_name_or_path": "/home/jo/llama", "tokenizer_file": "/home/jo/t.json"}
    sent = row(setup={"config": config})
    lab.upload(sent)

    assert lab.client.get(f"/measurements/{sent['id']}").get_json()["setup"]["config"] == {"model_type": "llama"}


def test_what_is_private_is_not_kept_however_deep_in_a_config_it_stands(lab: Lab) -> None:
    inner = {"hidden_size": 8, "_name_or_path": "org/name", "cache_dir": "~/.cache", "token": "hf_0123456789abcdefXX"}
    config = {"model_type": "llava", "text_config": inner, "layer_types": ["full", "/mnt/x"], "more": [{"a": "./b"}, 1]}
    sent = row(setup={"config": config})

    assert lab.counts(sent) == {"accepted": 1}
    assert lab.client.get(f"/measurements/{sent['id']}").get_json()["setup"]["config"] == {
        "model_type": "llava",
        "text_config": {"hidden_size": 8},
        "layer_types": ["full"],
        "more": [{}, 1],
    }
    assert lab.counts(sent) == {"duplicate": 1}


def test_what_a_config_calls_a_secret_is_not_kept_whatever_it_looks_like(lab: Lab) -> None:
    shape = {"model_type": "llama", "bos_token": "<s>", "pad_token_id": 0, "image_token_index": 32000}
    secrets = {"api_key": "abc", "hf_token": "abc", "token": "abc", "more": {"password": "abc"}, "/home/jo/abc": 1}
    sent = row(setup={"config": {**shape, **secrets, "trained_by": "jo@abc", "served_on": "10.1.2.3"}})
    lab.upload(sent)

    found = lab.client.get(f"/measurements/{sent['id']}").get_json()

    assert found["setup"]["config"] == {**shape, "more": {}}


@pytest.mark.parametrize("name", ["api_key", "hf_token", "password"])
def test_no_value_is_called_a_secret(lab: Lab, name: str) -> None:
    (item,) = lab.upload(row(values={"bytes_per_second": 1, name: "abc"})).get_json()["items"]

    assert [error["pointer"] for error in item["errors"]] == [f"/values/{name}"]


def test_no_device_is_told_from_all_others(lab: Lab) -> None:
    name = "NVIDIA H100 80GB HBM3 (UUID: GPU-3b241101-e2bb-4255-8caf-4136c566a962)"

    (item,) = lab.upload(row(gpu={"name": name})).get_json()["items"]

    assert [error["pointer"] for error in item["errors"]] == ["/gpu/name"]


@pytest.mark.parametrize("place", [("gpu", "name"), ("software", "runtime"), ("setup", "model"), ("values", "note")])
def test_no_text_hands_over_a_secret(lab: Lab, place: tuple[str, str]) -> None:
    part, name = place
    sent = row(software={}, setup={})
    sent[part] = {**sent[part], name: "sk-0123456789abcdef"}

    (item,) = lab.upload(sent).get_json()["items"]

    assert [error["pointer"] for error in item["errors"]] == [f"/{part}/{name}"]
    assert "key" in item["errors"][0]["detail"]


@pytest.mark.parametrize("name", [name for name, field in SETUP.known.items() if field.described()["type"] == "array"])
def test_no_list_of_a_setup_holds_a_path(lab: Lab, name: str) -> None:
    (item,) = lab.upload(row(setup={name: ["/home/jo/llama"]})).get_json()["items"]

    assert [error["pointer"] for error in item["errors"]] == [f"/setup/{name}/0"]
