"""phi3 (3, 3.5 and 4, mini to medium): llama's layer with fused projections, which count the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, uniform_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("phi3", "phi4")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 4096,
}


def read(fields: Fields) -> Architecture:
    """A window, where the file has a number, closes over every layer (2047 in the 4k models)."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    return dense.read(fields, dense.Layer(), shape=shape, windows=uniform_windows(fields, shape.layers))
