"""dots1 (dots.llm1): qwen3's attention, DeepSeek's experts behind the first layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, glm4_moe, latent_decoders, moe
from service.domain.configs.base import decoder, layer_windows
from service.domain.configs.fields import Fields

MODEL_TYPES = ("dots1",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 152064,
    "hidden_size": 4608,
    "intermediate_size": 10944,
    "num_hidden_layers": 62,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 2048,
    "moe_intermediate_size": 1408,
    "first_k_dense_replace": 0,
    "sliding_window": 4096,
    "max_window_layers": 62,
}


def read(fields: Fields) -> Architecture:
    """The file must count its experts: the class has no number of them."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    return moe.read(
        fields,
        shape,
        dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True),
        glm4_moe.routed(fields),
        sparse=latent_decoders.sparse_layers(fields, shape),
        windows=_windows(fields, shape.layers),
    )


def _windows(fields: Fields, count: int) -> tuple[int | None, ...]:
    """A window, where there is one, is on the layers from `max_window_layers` on."""
    window, first = fields.optional("sliding_window"), fields.integer("max_window_layers", least=0)
    return layer_windows(fields, count, lambda layer: window is not None and layer >= first)
