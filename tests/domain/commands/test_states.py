"""Commands that keep recurrent states in another type than the config."""

from typing import Any

import pytest

from service.answers import fit_answer
from service.domain.errors import NotSupported, QuoteError, ValidationError
from tests.domain.commands.command_cases import catalog

# Two layers with a state of 8 heads x 64 x 128 elements, two with attention.
BAMBA: dict[str, Any] = {
    "model_type": "bamba",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 1024,
    "attn_layer_indices": [1, 3],
    "mamba_n_heads": 8,
    "mamba_d_head": 64,
    "mamba_d_state": 128,
    "mamba_n_groups": 1,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
DELTA: dict[str, Any] = {
    "model_type": "qwen3_next",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "vocab_size": 1024,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 64,
    "shared_expert_intermediate_size": 64,
    "linear_num_key_heads": 4,
    "linear_num_value_heads": 8,
    "linear_key_head_dim": 64,
    "linear_value_head_dim": 64,
    "max_position_embeddings": 4096,
}
STATE_ELEMENTS = 8 * 64 * 128


def asked(flag: str, config: dict[str, Any], **beside: object) -> dict[str, Any]:
    command = f"vllm serve /models/own {flag}"
    return dict(fit_answer({"gpu": "h100-sxm-80gb", "command": command, "config": config, **beside}, catalog()))


def state_bytes(answer: dict[str, Any]) -> int:
    return sum(each["bytes_per_sequence"] for each in answer["cache"] if each["kind"] == "recurrent")


def refused(flag: str, config: dict[str, Any], **beside: object) -> QuoteError:
    with pytest.raises(QuoteError) as refusal:
        asked(flag, config, **beside)
    return refusal.value


@pytest.mark.parametrize("word, wider", [("float32", 2), ("float16", 0), ("bfloat16", 0), ("auto", 0)])
def test_states_are_kept_in_the_type_that_is_told(word: str, wider: int) -> None:
    plain, typed = asked("", BAMBA), asked(f"--mamba-ssm-cache-dtype {word}", BAMBA)

    assert state_bytes(typed) - state_bytes(plain) == 2 * STATE_ELEMENTS * wider
    assert any("recurrent states are kept in" in note for note in typed["assumptions"]) is (word != "auto")


def test_delta_nets_take_it_from_0_17_on() -> None:
    typed, plain = asked("--mamba-ssm-cache-dtype float32", DELTA), asked("", DELTA)
    # Three layers of four have a state of 8 heads x 64 x 64 elements.
    assert state_bytes(typed) - state_bytes(plain) == 3 * 8 * 64 * 64 * 2

    error = refused("--mamba-ssm-cache-dtype float32", DELTA, engine_version="0.16.0")
    assert isinstance(error, NotSupported)
    assert "not modelled for states of gdn" in error.detail


def test_a_model_without_states_does_not_mind() -> None:
    answer = fit_answer(
        {"gpu": "h100-sxm-80gb", "command": "vllm serve Qwen/Qwen3-8B --mamba-ssm-cache-dtype float32"}, catalog()
    )

    assert answer["command"]["ignored"] == ["--mamba-ssm-cache-dtype"]


def test_a_type_that_is_none_is_refused() -> None:
    error = refused("--mamba-ssm-cache-dtype fp8", BAMBA)

    assert isinstance(error, ValidationError)
    assert "needs one of auto, float32, float16, bfloat16" in error.detail
