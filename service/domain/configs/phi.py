"""phi (1, 1.5, 2): parallel attention and MLP behind one LayerNorm, biases everywhere, the head included."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind, Place
from service.domain.configs import blocks, dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("phi",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 51200,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "num_hidden_layers": 24,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "partial_rotary_factor": 0.5,
}


def read(fields: Fields) -> Architecture:
    """`qk_layernorm` adds LayerNorms over one head's width."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norms=1, norm_bias=True)
    extra = [blocks.edge_vector("lm_head.bias", shape.vocabulary, Place.LAST, ModuleKind.BIAS)]
    if fields.flag("qk_layernorm", default=False):
        extra += blocks.head_norms(shape.heads, shape.all_layers, biased=True)
    return dense.read(fields, layer, shape=shape, extra=tuple(extra))
