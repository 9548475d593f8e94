"""olmo (1): llama's layer with norms that have no weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("olmo",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50304,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}


def read(fields: Fields) -> Architecture:
    """Clipping of query, key and value changes no shape."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased, norms=0))
