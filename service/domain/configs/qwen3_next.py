"""qwen3_next and the text part of qwen3_5 and qwen3_5_moe: gated delta nets, full attention in every fourth layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import layer_kinds
from service.domain.configs import qwen3_next_parts as parts
from service.domain.configs.base import Decoder, architecture, decoder, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import FOUR_BYTES, GatedDelta

MODEL_TYPES = ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text")
_NEXT: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 48,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "full_attention_interval": 4,
    "partial_rotary_factor": 0.25,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 10,
    "num_experts": 512,
}
_MOE: Mapping[str, Any] = {
    **_NEXT,
    "vocab_size": 248320,
    "num_hidden_layers": 40,
    "num_experts_per_tok": 8,
    "num_experts": 256,
    "mamba_ssm_dtype": "float32",
}
_DENSE: Mapping[str, Any] = {
    **_MOE,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_key_value_heads": 4,
    "num_experts": 0,
}
_DEFAULTS = {"qwen3_next": _NEXT, "qwen3_5_text": _DENSE, "qwen3_5_moe_text": _MOE}
_STATE_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def read(fields: Fields) -> Architecture:
    """Queries come with a gate as wide as themselves; experts or a gated MLP in every layer."""
    fields = fields.defaulting(_DEFAULTS[fields.text("model_type") or "qwen3_next"])
    shape = decoder(fields)
    attending, mixing = _kinds(fields, shape)
    mixer = gated_delta(fields)
    made = [
        *frame(shape),
        *parts.attention(fields, shape, attending),
        *mixer.modules(shape.hidden, mixing),
        *parts.mlps(fields, shape, shape.all_layers),
        *parts.predicted(fields, shape),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, attending, mixer.cache(state_bytes(fields)), mixing))


def gated_delta(fields: Fields) -> GatedDelta:
    """The mixer's shape by the names that its families share; refuses heads that do not divide."""
    mixer = GatedDelta(
        key_heads=fields.integer("linear_num_key_heads"),
        key_width=fields.integer("linear_key_head_dim"),
        value_heads=fields.integer("linear_num_value_heads"),
        value_width=fields.integer("linear_value_head_dim"),
        kernel=fields.integer("linear_conv_kernel_dim"),
    )
    if mixer.value_heads % mixer.key_heads:
        detail = f"{mixer.value_heads} value heads cannot share {mixer.key_heads} key heads evenly."
        raise fields.refuse("linear_num_value_heads", detail)
    return mixer


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    if fields.flag("use_sliding_window", default=False):
        raise fields.refuse("use_sliding_window", "This family has no rule for a sliding window.")
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    every = fields.integer("full_attention_interval")
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    return split(shape.all_layers, lambda layer: (layer + 1) % every == 0)


def state_bytes(fields: Fields) -> int:
    """qwen3_5 keeps its state in the type it names (32 bits unless it says so), qwen3_next in the model's."""
    if "mamba_ssm_dtype" not in fields.defaults:
        return FOUR_BYTES // 2
    name = (fields.text("mamba_ssm_dtype") or "float32").removeprefix("torch.")
    if name not in _STATE_BYTES:
        raise fields.refuse("mamba_ssm_dtype", f"mamba_ssm_dtype must be one of {', '.join(_STATE_BYTES)}.")
    return _STATE_BYTES[name]
