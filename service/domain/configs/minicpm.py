"""minicpm (1, 2, 4): llama's layer with a tied head unless the file says otherwise."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("minicpm",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 122753,
    "hidden_size": 2304,
    "intermediate_size": 5760,
    "num_hidden_layers": 40,
    "num_attention_heads": 36,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """Sparse attention (4.1) keeps compressed keys as well, and experts are another layer: no rule for either."""
    fields = fields.defaulting(DEFAULTS)
    if fields.has("num_experts"):
        raise fields.refuse("num_experts", "This family has no rule for experts.")
    biased = fields.flag("attention_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased), shape=decoder(fields, tied=True))
