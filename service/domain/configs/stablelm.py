"""stablelm: llama's layer with LayerNorms, one of them where attention and MLP run side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, filled
from service.domain.configs.fields import Fields

MODEL_TYPES = ("stablelm",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50304,
    "hidden_size": 2560,
    "intermediate_size": 6912,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
    "partial_rotary_factor": 0.25,
}


def read(fields: Fields) -> Architecture:
    """`qk_layernorm` norms each head by weights of its own (2-12b)."""
    fields = fields.defaulting(DEFAULTS)
    layer = dense.Layer(
        qkv_bias=fields.flag("use_qkv_bias", default=False),
        wide_norms=fields.flag("qk_layernorm", default=False),
        norms=1 if fields.flag("use_parallel_residual", default=False) else 2,
        norm_bias=True,
    )
    return dense.read(fields, layer, shape=filled(fields, decoder(fields)))
