"""llama and everything shaped like it: grouped-query attention, gated MLP, two norms a layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("llama", "yi", "Yi")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}


def read(fields: Fields) -> Architecture:
    """Every layer keeps a full cache; attention and MLP may carry biases."""
    return read_standard(fields.defaulting(DEFAULTS))


def read_standard(fields: Fields, norms: int = 2) -> Architecture:
    """Read a decoder of this shape whose sizes the file must state; some norm a layer more often."""
    biased = fields.flag("attention_bias", default=False)
    mlp_biased = fields.flag("mlp_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=mlp_biased, norms=norms))
