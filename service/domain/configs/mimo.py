"""mimo (7B): qwen2's layer with prediction layers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense, moe, qwen2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("mimo",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151680,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 32768,
    "head_dim": 128,
    "attention_bias": True,
    "sliding_window": 32768,
    "max_window_layers": 36,
}


def read(fields: Fields) -> Architecture:
    """A prediction layer has a dense MLP."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(qkv_bias=fields.flag("attention_bias", default=True))
    behind = moe.predicted_layers(fields, shape)
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    return dense.read(
        fields,
        layer,
        shape=shape,
        windows=qwen2.upper_windows(fields, shape.layers),
        extra=moe.prediction(shape, layer, mlp, behind),
    )
