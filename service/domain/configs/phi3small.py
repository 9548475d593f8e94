"""phi3small: LayerNorms, biases everywhere, and blocksparse attention that keeps every token."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("phi3small",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 100352,
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "ff_intermediate_size": 14336,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """The gated MLP's two halves are one matrix with one bias; tokens outside a block's pattern stay in the cache."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    layer = dense.Layer(qkv_bias=True, out_bias=True, mlp_bias=True, norm_bias=True)
    width = fields.integer("ff_intermediate_size", "intermediate_size")
    return dense.read(fields, layer, shape=shape, width=width)
