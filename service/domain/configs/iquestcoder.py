"""iquestcoder (IQuest Coder V1): llama with sizes of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import llama
from service.domain.configs.fields import Fields

MODEL_TYPES = ("iquestcoder",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 76800,
    "hidden_size": 5120,
    "intermediate_size": 27648,
    "num_hidden_layers": 80,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
}


def read(fields: Fields) -> Architecture:
    """Every layer keeps a full cache; a window that is switched on is refused, as its code refuses it."""
    return llama.read_standard(fields.defaulting(DEFAULTS))
