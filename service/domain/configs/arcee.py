"""arcee (AFM 4.5B): llama's attention and a plain MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("arcee",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 2560,
    "intermediate_size": 18432,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
}


def read(fields: Fields) -> Architecture:
    """Biases by switches, as in llama."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=False)
    mlp_bias = fields.flag("mlp_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=mlp_bias, gated=False))
