"""A reader refuses what it has no rule for, and names the field."""

from typing import Any

import pytest

from service.domain.configs import known_model_types, read_config
from service.domain.errors import ConfigError, NotSupported, QuoteError, UnknownArchitecture
from tests.domain.configs.published import named

LLAMA = "meta-llama/Meta-Llama-3-8B"
MIXTRAL = "mistralai/Mixtral-8x7B-v0.1"
CHANGES: list[tuple[str, dict[str, Any], str]] = [
    (LLAMA, {"num_hidden_layers": 0}, "num_hidden_layers"),
    (LLAMA, {"num_hidden_layers": 10**9}, "num_hidden_layers"),
    (LLAMA, {"num_attention_heads": 7, "num_key_value_heads": 7}, "num_attention_heads"),
    (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads"),
    (LLAMA, {"hidden_size": None}, "hidden_size"),
    (LLAMA, {"hidden_size": 4096.5}, "hidden_size"),
    (LLAMA, {"vocab_size": "128k"}, "vocab_size"),
    (LLAMA, {"tie_word_embeddings": "yes"}, "tie_word_embeddings"),
    (LLAMA, {"kv_lora_rank": 512}, "kv_lora_rank"),
    (LLAMA, {"attention_chunk_size": 8192}, "attention_chunk_size"),
    (LLAMA, {"num_kv_shared_layers": 4}, "num_kv_shared_layers"),
    (LLAMA, {"use_sliding_window": True, "sliding_window": 4096}, "use_sliding_window"),
    (LLAMA, {"n_layer": 16}, "n_layer"),
    (LLAMA, {"n_embd": 1024}, "n_embd"),
    (LLAMA, {"num_kv_heads": 4}, "num_kv_heads"),
    (MIXTRAL, {"num_experts": 16}, "num_experts"),
    ("deepseek-ai/DeepSeek-R1", {"num_experts": 64}, "num_experts"),
    (LLAMA, {"layer_types": ["full_attention", "linear_attention"] * 16}, "layer_types"),
    (LLAMA, {"quantization_config": [4]}, "quantization_config"),
    (MIXTRAL, {"num_experts_per_tok": 9}, "num_experts_per_tok"),
    (MIXTRAL, {"num_local_experts": 10**9}, "num_local_experts"),
    ("google/gemma-2-2b", {"layer_types": ["full_attention"] * 25}, "layer_types"),
    ("google/gemma-2-2b", {"layer_types": ["chunked_attention"] * 26}, "layer_types"),
    ("google/gemma-2-2b", {"sliding_window": None}, "sliding_window"),
    ("LGAI-EXAONE/EXAONE-4.0-32B", {"layer_types": None, "sliding_window_pattern": "LXLG"}, "sliding_window_pattern"),
    ("XiaomiMiMo/MiMo-V2-Flash", {"hybrid_layer_pattern": [0, 1]}, "hybrid_layer_pattern"),
    ("XiaomiMiMo/MiMo-V2-Flash", {"hybrid_layer_pattern": [2] * 48}, "hybrid_layer_pattern"),
    ("XiaomiMiMo/MiMo-V2-Flash", {"swa_num_key_value_heads": 5}, "swa_num_key_value_heads"),
    ("mosaicml/mpt-7b", {"attn_config": {"attn_type": "novel"}}, "attn_config/attn_type"),
    ("stepfun-ai/Step-3.5-Flash", {"attention_other_setting": {"num_attention_groups": 7}}, "attention_other_setting"),
    ("stepfun-ai/Step-3.5-Flash", {"moe_layers_enum": "3,4,five"}, "moe_layers_enum"),
    ("tencent/Hunyuan-A13B-Instruct", {"num_experts": [64] * 31 + [32]}, "num_experts"),
    ("tencent/Hunyuan-A13B-Instruct", {"moe_topk": [65] * 32}, "moe_topk"),
    ("tencent/Hunyuan-A13B-Instruct", {"use_cla": True}, "use_cla"),
    ("MiniMaxAI/MiniMax-M2", {"attn_type_list": [1] * 61 + [0]}, "attn_type_list"),
    ("zai-org/chatglm3-6b", {"inner_hidden_size": 16384}, "inner_hidden_size"),
    ("openbmb/MiniCPM4-8B", {"sparse_config": {"topk": 64}}, "sparse_config"),
    ("openbmb/MiniCPM4-8B", {"num_experts": 8}, "num_experts"),
    ("transformers/cwm", {"sliding_window": None}, "sliding_window"),
    ("transformers/dots1", {"n_routed_experts": None}, "n_routed_experts"),
    ("transformers/dots1", {"use_sliding_window": True}, "use_sliding_window"),
    ("transformers/helium", {"head_dim": 64}, "head_dim"),
    ("stabilityai/stablelm-3b-4e1t", {"head_dim": 64}, "head_dim"),
    ("allenai/OLMoE-1B-7B-0924-Instruct", {"head_dim": 64}, "head_dim"),
    ("transformers/iquestcoder", {"use_sliding_window": True}, "use_sliding_window"),
]


def refusal(config: dict[str, Any]) -> QuoteError:
    with pytest.raises(QuoteError) as caught:
        read_config(config)
    return caught.value


@pytest.mark.parametrize(
    "model, change, field", CHANGES, ids=[f"{field}-{n}" for n, (_, _, field) in enumerate(CHANGES)]
)
def test_a_field_without_a_rule_is_named(model: str, change: dict[str, Any], field: str) -> None:
    error = refusal({**named(model), **change})

    assert isinstance(error, ConfigError)
    assert [fault.pointer for fault in error.faults] == [f"/config/{field}"]


def test_a_field_deep_inside_is_named_by_its_whole_path() -> None:
    ffn = {"ffn_hidden_size": 10752, "moe_num_experts": 16, "moe_top_k": 17}

    error = refusal({**named("databricks/dbrx-instruct"), "ffn_config": ffn})

    assert error.faults[0].pointer == "/config/ffn_config/moe_top_k"


def test_an_unknown_model_type_lists_those_that_are_known_and_the_nearest() -> None:
    error = refusal({"model_type": "lama", "hidden_size": 4096})

    assert isinstance(error, UnknownArchitecture)
    assert "llama" in error.faults[0].nearest
    assert all(name in error.detail for name in known_model_types())


@pytest.mark.parametrize("config", [{}, {"hidden_size": 4096}, {"model_type": None}, {"model_type": 7}])
def test_a_config_without_a_model_type_is_refused(config: dict[str, Any]) -> None:
    assert refusal(config).faults[0].pointer == "/config/model_type"


def test_a_config_of_nothing_but_a_model_type_is_refused() -> None:
    assert refusal({"model_type": "llama"}).faults[0].pointer == "/config/hidden_size"


def test_a_quantization_scheme_that_no_format_describes_is_not_supported() -> None:
    error = refusal({**named(LLAMA), "quantization_config": {"quant_method": "aqlm"}})

    assert isinstance(error, NotSupported)
    assert error.faults[0].pointer == "/config/quantization_config"


def test_a_stranger_is_read_as_a_standard_decoder_when_asked_and_says_so() -> None:
    config = {**named(LLAMA), "model_type": "novel"}

    architecture = read_config(config, assume_decoder=True)

    assert architecture.parameters == read_config(named(LLAMA)).parameters
    assert "novel" in architecture.warnings[0]


def test_a_stranger_has_no_defaults() -> None:
    config = {name: value for name, value in named(LLAMA).items() if name != "intermediate_size"}

    with pytest.raises(ConfigError) as caught:
        read_config({**config, "model_type": "novel"}, assume_decoder=True)

    assert caught.value.faults[0].pointer == "/config/intermediate_size"


@pytest.mark.parametrize(
    "name, slip",
    [
        *(
            ("hidden_size", slip)
            for slip in ("hiden_size", "hidden_sizes", "hidden_siez", "hidden-size", "hidden/size")
        ),
        ("vocab_size", "vocabsize"),
        ("num_attention_heads", "num_attention_head"),
    ],
)
def test_a_size_that_is_misspelt_is_not_assumed(name: str, slip: str) -> None:
    config = named(LLAMA)
    config[slip] = config.pop(name)

    with pytest.raises(ConfigError) as caught:
        read_config(config)

    (fault,) = caught.value.faults
    assert fault.pointer == f"/config/{slip.replace('/', '~1')}"
    assert fault.nearest == (name,)


def test_a_size_that_is_not_there_at_all_is_assumed_and_said() -> None:
    config = named(LLAMA)
    del config["hidden_size"]

    assert "hidden_size 4096" in " ".join(read_config(config).assumptions)
