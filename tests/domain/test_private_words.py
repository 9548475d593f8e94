"""Which command lines are kept, and what is said of those that are not."""

import pytest

from service.domain.private_words import (
    holds_secret,
    is_place,
    names_device,
    names_machine,
    names_secret,
    private_in_command,
)
from tests.domain.conftest import CATALOG

SERVE = "vllm serve meta-llama/Llama-3.1-8B-Instruct"


@pytest.mark.parametrize(
    "command",
    [
        f"{SERVE} --max-model-len 8192 --kv-cache-dtype fp8",
        f"{SERVE} --host 0.0.0.0 --port 8000",
        f"{SERVE} --eos_token 2 --max-tokens 64 --tokenizer-mode auto",
        "CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --model-path Qwen/Qwen3-8B",
    ],
)
def test_a_command_of_settings_alone_is_kept(command: str) -> None:
    assert private_in_command(command) is None


@pytest.mark.parametrize(
    "command, words",
    [
        ("vllm serve /data/models/llama", "a path or an address"),
        (f"{SERVE} --download-dir ~/models", "a path or an address"),
        (f"{SERVE} --api-key abc", "a key, a token or a password"),
        (f"HF_TOKEN=abc {SERVE}", "a key, a token or a password"),
        (f"CUDA_VISIBLE_DEVICES=GPU-5a1c2b3d-0000-1111-2222-333344445555 {SERVE}", "one card of all"),
        (f"CUDA_VISIBLE_DEVICES=mig-5a1c2b3d-0000-1111-2222-333344445555 {SERVE}", "one card of all"),
        (f"{SERVE} --host node17", "a machine"),
        (f"{SERVE} --master-addr 10.0.0.17", "a machine"),
        (f"MASTER_ADDR=node17 {SERVE}", "a machine"),
        (f"ssh node17 {SERVE}", "a machine"),
    ],
)
def test_a_command_that_tells_whose_it_is_is_refused_with_the_reason(command: str, words: str) -> None:
    reason = private_in_command(command) or ""

    assert words in reason
    assert "which is not kept" in reason


@pytest.mark.parametrize(
    "command, words",
    [
        (f"HF_TOKEN=abc {SERVE} --host node17 --download-dir /data", "a path or an address"),
        (f"HF_TOKEN=abc {SERVE} --host node17", "a key, a token or a password"),
    ],
)
def test_of_several_reasons_one_is_told_in_a_fixed_order(command: str, words: str) -> None:
    assert words in (private_in_command(command) or "")


@pytest.mark.parametrize(
    "text, place, secret, device",
    [
        ("meta-llama/Llama-3.1-8B", False, False, False),
        ("./weights", True, False, False),
        ("C:\\weights", True, False, False),
        ("https://example.org", True, False, False),
        ("sk-abcdefghijklmnopqrst", False, True, False),
        ("GPU-5a1c2b3d-0000-1111-2222-333344445555", False, False, True),
    ],
)
def test_a_text_is_told_by_what_it_holds(text: str, place: bool, secret: bool, device: bool) -> None:
    assert (is_place(text), holds_secret(text), names_device(text)) == (place, secret, device)


@pytest.mark.parametrize(
    "name, secret",
    [
        ("api_key", True),
        ("hf-token", True),
        ("token", True),
        ("db_password", True),
        ("eos_token", False),
        ("keys", False),
    ],
)
def test_a_name_of_a_secret_is_told_from_one_that_holds_the_word(name: str, secret: bool) -> None:
    assert names_secret(name) is secret


@pytest.mark.parametrize(
    "text", ["host-17.internal.example.com", "node3.lan", "GPU7.Cluster.local", "192.168.0.7", "172.20.1.9:8000"]
)
def test_the_name_or_the_address_of_a_machine_is_one(text: str) -> None:
    assert names_machine(text)


@pytest.mark.parametrize(
    "text", ["NVIDIA H100 80GB HBM3", "0.10.1.1", "10.2.0.19", "qwen2.5-7b-instruct", "meta-llama/Llama-3.1-8B"]
)
def test_a_card_a_release_and_a_model_are_none(text: str) -> None:
    assert not names_machine(text)


def test_nothing_that_the_catalog_names_is_a_machine() -> None:
    names = [path.stem for path in (CATALOG / "models").glob("*.yaml")] + [
        path.stem for path in (CATALOG / "gpus").glob("*.yaml")
    ]
    assert len(names) > 700
    assert not list(filter(names_machine, names))
