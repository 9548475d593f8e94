"""exaone (3.x): llama's layer under other names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import llama
from service.domain.configs.fields import Fields

MODEL_TYPES = ("exaone",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 4096,
}


def read(fields: Fields) -> Architecture:
    """Read full attention in every layer."""
    return llama.read_standard(fields.defaulting(DEFAULTS))
