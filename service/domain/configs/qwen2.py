"""qwen2 (Qwen 1.5 to 2.5): llama's layer with biases on query, key and value, and a window mostly switched off."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("qwen2", "qwen2_5")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "sliding_window": 4096,
    "max_window_layers": 28,
}


def read(fields: Fields) -> Architecture:
    """Read query, key and value biases, and the windows of the upper layers."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    return dense.read(fields, dense.Layer(qkv_bias=True), shape=shape, windows=upper_windows(fields, shape.layers))


def upper_windows(fields: Fields, count: int) -> tuple[int | None, ...]:
    """The window of each layer: none unless `use_sliding_window`, and then from layer `max_window_layers` on.

    A window that the file switches off or leaves empty counts for nothing, whatever `layer_types` says.
    """
    if not fields.flag("use_sliding_window", default=False) or fields.optional("sliding_window") is None:
        fields.choices("layer_types", ("full_attention",), count)
        return (None,) * count
    first = fields.integer("max_window_layers", least=0)
    return layer_windows(fields, count, lambda layer: layer >= first)
