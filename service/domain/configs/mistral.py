"""mistral: llama's layer, all of them behind one window where the file has a number for it (0.1 does)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("mistral",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}


def read(fields: Fields) -> Architecture:
    """A `head_dim` that is not hidden size over heads is real here (Nemo: 128 for 160)."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    return dense.read(fields, dense.Layer(), shape=shape, windows=uniform_windows(fields, shape.layers))
