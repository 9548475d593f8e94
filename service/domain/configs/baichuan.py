"""baichuan (1, 2): llama's layer with fused projections and as many KV heads as query heads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("baichuan",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 125696,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
}


def read(fields: Fields) -> Architecture:
    """The head normalised at run time (2) has the shape of any other."""
    fields = fields.defaulting(DEFAULTS)
    return dense.read(fields, dense.Layer(), shape=decoder(fields, multi_head=True))
