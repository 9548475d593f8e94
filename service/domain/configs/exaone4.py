"""exaone4: norms on each head, behind attention and MLP instead of before, and a window in three layers of four."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import FULL, decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("exaone4",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 2048,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
}


def read(fields: Fields) -> Architecture:
    """A null window (1.2B) makes every layer full; 4.5 has a prediction layer."""
    fields = fields.defaulting(DEFAULTS)
    shape, layer = decoder(fields), dense.Layer(head_norms=True)
    behind = moe.predicted_layers(fields, shape)
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    extra = moe.prediction(shape, layer, mlp, behind) if behind else ()
    return dense.read(fields, layer, shape=shape, windows=windows(fields, shape.layers), extra=extra)


def windows(fields: Fields, count: int) -> tuple[int | None, ...]:
    """The window of each layer: by `layer_types`, else by a pattern, a number or letters of which L slides."""
    if fields.optional("sliding_window") is None:
        fields.choices("layer_types", (FULL,), count)
        return (None,) * count
    pattern = fields.get("sliding_window_pattern")
    if isinstance(pattern, str) and set(pattern) <= {"L", "G"} and pattern:
        return layer_windows(fields, count, lambda index: pattern[index % len(pattern)] == "L")
    every = fields.integer("sliding_window_pattern")
    return layer_windows(fields, count, lambda index: (index + 1) % every != 0)
