"""persimmon: a plain MLP, LayerNorms and biases everywhere, and norms on each head's query and key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense, gpt2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("persimmon",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 262144,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 36,
    "num_attention_heads": 64,
    "max_position_embeddings": 16384,
    "partial_rotary_factor": 0.5,
}


def read(fields: Fields) -> Architecture:
    """As many KV heads as query heads; the norms on heads are LayerNorms with their biases."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, multi_head=True)
    normed = fields.flag("qk_layernorm", default=True)
    norms = blocks.head_norms(shape.heads, shape.all_layers, biased=True) if normed else []
    return dense.read(fields, gpt2.LAYER, shape=shape, extra=tuple(norms))
