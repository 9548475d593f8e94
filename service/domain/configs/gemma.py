"""gemma (1): llama's layer with a stated head width and a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gemma",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "head_dim": 256,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """Read full attention in every layer."""
    fields = fields.defaulting(DEFAULTS)
    biased = fields.flag("attention_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased), shape=decoder(fields, tied=True))
