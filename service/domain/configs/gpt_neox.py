"""gpt_neox (Pythia): rotary positions, LayerNorms and biases, a head of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gpt_neox",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50432,
    "hidden_size": 6144,
    "intermediate_size": 24576,
    "num_hidden_layers": 44,
    "num_attention_heads": 64,
    "max_position_embeddings": 2048,
    "rotary_pct": 0.25,
}


def read(fields: Fields) -> Architecture:
    """As many KV heads as query heads."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=True)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=True, gated=False, norm_bias=True)
    return dense.read(fields, layer, shape=decoder(fields, multi_head=True))
