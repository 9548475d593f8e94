"""cohere (Command R): attention and MLP side by side behind one norm, a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("cohere",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """`use_qk_norm` norms each head by weights of its own (R+)."""
    fields = fields.defaulting(DEFAULTS)
    return dense.read(fields, layer(fields), shape=decoder(fields, tied=True))


def layer(fields: Fields) -> dense.Layer:
    """The layer's switches; its norm has no bias."""
    biased = fields.flag("attention_bias", default=False)
    norms = fields.flag("use_qk_norm", default=False)
    return dense.Layer(qkv_bias=biased, out_bias=biased, wide_norms=norms, norms=1)
