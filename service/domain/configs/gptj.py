"""gptj and codegen: parallel attention and MLP behind one LayerNorm; the head has a bias."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind, Place
from service.domain.configs import blocks, dense, gpt2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gptj", "codegen")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50400,
    "n_positions": 2048,
    "n_embd": 4096,
    "n_layer": 28,
    "n_head": 16,
}


def read(fields: Fields) -> Architecture:
    """Attention has no bias, the MLP has."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, multi_head=True)
    head = blocks.edge_vector("lm_head.bias", shape.vocabulary, Place.LAST, ModuleKind.BIAS)
    layer = dense.Layer(mlp_bias=True, gated=False, norms=1, norm_bias=True)
    return dense.read(fields, layer, shape=shape, width=gpt2.width(fields, shape), extra=(head,))
