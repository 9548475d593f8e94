"""qwen3_moe: qwen3's attention with routed experts in every `decoder_sparse_step`-th layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import decoder, routing, uniform_windows
from service.domain.configs.fields import Fields
from service.domain.configs.qwen2_moe import sparse_layers

MODEL_TYPES = ("qwen3_moe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "decoder_sparse_step": 1,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
}


def read(fields: Fields) -> Architecture:
    """No shared expert; a window, if it is switched on, closes over every layer."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True)
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("moe_intermediate_size"))
    on = fields.flag("use_sliding_window", default=False)
    windows = uniform_windows(fields, shape.layers) if on else None
    return moe.read(fields, shape, layer, experts, sparse=sparse_layers(fields, shape.layers), windows=windows)
