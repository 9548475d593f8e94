"""olmo2 and olmo3: norms behind attention and MLP and over all heads; three layers of four slide in the third."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("olmo2", "olmo3")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50304,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "sliding_window": 4096,
}


def read(fields: Fields) -> Architecture:
    """olmo3's alternation stands in the model code; `layer_types` wins where a file has it."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    third = fields.text("model_type") == "olmo3"
    windows = layer_windows(fields, shape.layers, lambda index: (index + 1) % 4 != 0) if third else None
    return dense.read(
        fields, dense.Layer(qkv_bias=biased, out_bias=biased, wide_norms=True), shape=shape, windows=windows
    )
