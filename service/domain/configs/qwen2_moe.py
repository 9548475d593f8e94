"""qwen2_moe: qwen2's attention, routed experts and a gated shared one in every `decoder_sparse_step`-th layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, layer_windows, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("qwen2_moe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 1408,
    "shared_expert_intermediate_size": 5632,
    "num_experts": 60,
    "num_experts_per_tok": 4,
}


def read(fields: Fields) -> Architecture:
    """The shared expert's gate is a vector over the hidden size."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    count, active = routing(fields, ("num_experts",), ("num_experts_per_tok",))
    experts = moe.Experts(
        count=count,
        active=active,
        width=fields.integer("moe_intermediate_size"),
        shared=fields.integer("shared_expert_intermediate_size"),
        shared_gate=True,
    )
    layer = dense.Layer(qkv_bias=fields.flag("qkv_bias", default=True))
    windows = _windows(fields, shape.layers)
    return moe.read(fields, shape, layer, experts, sparse=sparse_layers(fields, shape.layers), windows=windows)


def sparse_layers(fields: Fields, count: int) -> tuple[int, ...]:
    """Layers with experts: each `decoder_sparse_step`-th, unless `mlp_only_layers` names it."""
    step = fields.integer("decoder_sparse_step")
    plain = set(fields.integers("mlp_only_layers"))
    return tuple(layer for layer in range(count) if (layer + 1) % step == 0 and layer not in plain)


def _windows(fields: Fields, count: int) -> tuple[int | None, ...]:
    if not fields.flag("use_sliding_window", default=False) or fields.optional("sliding_window") is None:
        fields.choices("layer_types", ("full_attention",), count)
        return (None,) * count
    last = fields.integer("max_window_layers", least=0)
    # Every other layer of the lower ones, as the model code has it; qwen2 slides from there upwards.
    return layer_windows(fields, count, lambda layer: layer % 2 == 0 and layer < last)
