"""Latent, recurrent and wrapping families refuse what they have no rule for, and name the field."""

from typing import Any

import pytest

from service.domain.configs import read_config
from service.domain.errors import ConfigError
from tests.domain.configs.published import named

V3, GLM, V4 = "deepseek-ai/DeepSeek-R1", "zai-org/GLM-5.2", "deepseek-ai/DeepSeek-V4-Flash"
NANO, KIMI = "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "moonshotai/Kimi-Linear-48B-A3B-Instruct"
NEXT, JAMBA = "Qwen/Qwen3-Next-80B-A3B-Instruct", "ai21labs/Jamba-v0.1"
NAS, BAMBA, LFM = "nvidia/Llama-3_3-Nemotron-Super-49B-v1", "transformers/bamba", "LiquidAI/LFM2-1.2B"
PATTERN = "hybrid_override_pattern"
LING = "inclusionAI/Ling-3.0-tiny"
CHANGES: list[tuple[str, dict[str, Any], str]] = [
    (LING, {"short_conv_kernel_size": None, "kda_safe_gate": None}, "short_conv_kernel_size"),
    (LING, {"no_kda_lora": False}, "no_kda_lora"),
    (LING, {"gated_attention_proj_granularity_type": "element_wise"}, "gated_attention_proj_granularity_type"),
    (LING, {"num_experts_per_tok": 129}, "num_experts_per_tok"),
    (V3, {"kv_lora_rank": None}, "kv_lora_rank"),
    (V3, {"moe_layer_freq": 2}, "moe_layer_freq"),
    (V3, {"num_experts_per_tok": 257}, "num_experts_per_tok"),
    (V3, {"index_topk": 2048}, "index_topk"),
    (GLM, {"indexer_types": ["full"] * 77}, "indexer_types"),
    (GLM, {"indexer_types": None, "index_topk_pattern": "FSX" * 26}, "index_topk_pattern"),
    (GLM, {"indexer_types": None, "index_topk_pattern": [[]] * 78}, "index_topk_pattern"),
    (GLM, {"indexer_types": None, "index_topk_pattern": "FS"}, "index_topk_pattern"),
    (GLM, {"indexer_types": None, "index_topk_pattern": "S" * 78}, "index_topk_pattern"),
    (GLM, {"indexer_types": ["shared"] * 78}, "indexer_types"),
    (GLM, {"indexer_types": None, "index_topk_freq": 4, "index_skip_topk_offset": 0}, "index_skip_topk_offset"),
    (GLM, {"layer_types": ["sliding_attention"] * 78}, "layer_types"),
    (V4, {"compress_ratios": [8] * 44}, "compress_ratios"),
    (V4, {"num_key_value_heads": 2}, "num_key_value_heads"),
    (V4, {"o_groups": 7}, "o_groups"),
    (
        KIMI,
        {"layer_types": None, "linear_attn_config": {"full_attn_layers": [0]}},
        "linear_attn_config/full_attn_layers",
    ),
    (
        KIMI,
        {"layer_types": None, "linear_attn_config": {"full_attn_layers": [1], "kda_layers": [1]}},
        "linear_attn_config/kda_layers",
    ),
    (NANO, {PATTERN: "MEX"}, PATTERN),
    (NANO, {PATTERN: ""}, PATTERN),
    (NANO, {PATTERN: "M" * 5000}, PATTERN),
    (NANO, {"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype"),
    (NANO, {"sliding_window": 4096}, "sliding_window"),
    (NEXT, {"use_sliding_window": True}, "use_sliding_window"),
    (NEXT, {"linear_num_value_heads": 33}, "linear_num_value_heads"),
    (JAMBA, {"attn_layer_offset": 8}, "attn_layer_offset"),
    (JAMBA, {"mamba_dt_rank": "manual"}, "mamba_dt_rank"),
    (BAMBA, {"mamba_n_heads": 7, "mamba_d_head": "auto"}, "mamba_n_heads"),
    (BAMBA, {"mamba_d_head": 5}, "mamba_d_head"),
    (BAMBA, {"attn_layer_indices": [99]}, "attn_layer_indices"),
    (LFM, {"layer_types": None, "full_attn_idxs": [16]}, "full_attn_idxs"),
    (LFM, {"intermediate_size": 1, "block_ffn_dim_multiplier": None}, "intermediate_size"),
    (NAS, {"block_configs": [{}] * 79}, "block_configs"),
    (NAS, {"block_configs": ["x"] * 80}, "block_configs/0"),
    (NAS, {"block_configs": [{"attention": {"no_op": True}}] * 80}, "block_configs/0/ffn"),
    (NAS, {"block_configs": [{"ffn": {"no_op": True}}] * 80}, "block_configs/0/attention"),
    (NAS, {"block_configs": [{"attention": {"no_op": True}, "ffn": {}}] * 80}, "block_configs/0/ffn/ffn_mult"),
    (
        NAS,
        {"block_configs": [{"attention": {"n_heads_in_group": 7}}] * 80},
        "block_configs/0/attention/n_heads_in_group",
    ),
    ("transformers/mamba2", {"num_heads": 100}, "num_heads"),
    ("transformers/zamba2", {"layers_block_type": None, "num_hidden_layers": 7, "hybrid_layer_ids": None},
     "layers_block_type"),
    (
        "transformers/zamba2",
        {"attention_head_dim": None, "num_attention_heads": 7, "num_key_value_heads": 7},
        "num_attention_heads",
    ),
    ("MiniMaxAI/MiniMax-Text-01", {"sliding_window": 4096}, "sliding_window"),
    ("MiniMaxAI/MiniMax-Text-01", {"shared_intermediate_size": 64}, "shared_intermediate_size"),
    ("google-t5/t5-small", {"feed_forward_proj": "gated-gelu-twice"}, "feed_forward_proj"),
    ("openai/whisper-large-v3", {"decoder_attention_heads": 7}, "decoder_attention_heads"),
    ("google/gemma-3-1b-it", {"use_bidirectional_attention": True}, "use_bidirectional_attention"),
    ("google/gemma-3-1b-it", {"sliding_window": None}, "sliding_window"),
]  # fmt: skip
INNER: list[tuple[str, str, dict[str, Any], str]] = [
    ("google/gemma-3n-E4B-it", "text_config", {"num_kv_shared_layers": 33}, "num_kv_shared_layers"),
    ("google/gemma-4-E2B-it", "audio_config", {"num_attention_heads": 7}, "hidden_size"),
    ("google/gemma-4-26B-A4B", "text_config", {"per_layer_config": {"30": {}}}, "per_layer_config/30"),
    ("google/gemma-4-26B-A4B", "text_config", {"per_layer_config": {"5": {"rope": 1}}}, "per_layer_config/5/rope"),
    ("Qwen/Qwen3.5-27B", "text_config", {"mamba_ssm_dtype": "int8"}, "mamba_ssm_dtype"),
    ("Qwen/Qwen3-VL-2B-Instruct", "vision_config", {"depth": -1}, "depth"),
    ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "vision_config", {"patch_size": 999}, "patch_size"),
    ("transformers/internvl", "vision_config", {"image_size": [1, 2, 3]}, "image_size"),
]


def pointer(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        read_config(config)
    return caught.value.faults[0].pointer


@pytest.mark.parametrize(
    "model, change, field", CHANGES, ids=[f"{field}-{n}" for n, (_, _, field) in enumerate(CHANGES)]
)
def test_a_field_without_a_rule_is_named(model: str, change: dict[str, Any], field: str) -> None:
    assert pointer({**named(model), **change}) == f"/config/{field}"


@pytest.mark.parametrize(
    "model, part, change, field", INNER, ids=[f"{field}-{n}" for n, (_, _, _, field) in enumerate(INNER)]
)
def test_a_nested_field_is_named_by_its_path(model: str, part: str, change: dict[str, Any], field: str) -> None:
    config = named(model)

    assert pointer({**config, part: {**config[part], **change}}) == f"/config/{part}/{field}"


@pytest.mark.parametrize(
    "part, given, field",
    [
        ("audio_config", {"sscp_conv_channel_size": [128]}, "sscp_conv_channel_size"),
        ("audio_config", {"conf_num_attention_heads": 7}, "hidden_size"),
        ("vision_config", {"architecture": "novel"}, "architecture"),
    ],
)
def test_an_encoder_of_gemma_3n_is_refused_by_its_path(part: str, given: dict[str, Any], field: str) -> None:
    assert pointer({**named("google/gemma-3n-E4B-it"), part: given}) == f"/config/{part}/{field}"


def test_pattern_free_ultra_is_refused_for_its_blocks() -> None:
    config = {name: value for name, value in named(NAS).items() if name != "block_configs"}

    assert pointer(config) == "/config/block_configs"
