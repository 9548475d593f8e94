"""granite (3.x, 4.x dense): llama's layer; hyperclovax, which may norm behind attention and MLP as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import llama
from service.domain.configs.fields import Fields

MODEL_TYPES = ("granite", "hyperclovax")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32000,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}


def read(fields: Fields) -> Architecture:
    """Multipliers change no shape."""
    normed = fields.text("model_type") == "hyperclovax" and fields.flag("use_post_norm", default=True)
    return llama.read_standard(fields.defaulting(DEFAULTS), norms=4 if normed else 2)
