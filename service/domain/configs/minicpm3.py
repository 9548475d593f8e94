"""minicpm3: latent attention with a dense MLP in every layer, head and table one matrix."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, latent_blocks
from service.domain.configs.base import architecture, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import caches, latent_decoder

MODEL_TYPES = ("minicpm3",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 73448,
    "hidden_size": 2560,
    "intermediate_size": 6400,
    "num_hidden_layers": 62,
    "num_attention_heads": 40,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "kv_lora_rank": 256,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
}


def read(fields: Fields) -> Architecture:
    """A value is as wide as the hidden size over the heads where the file does not say."""
    fields = fields.defaulting(DEFAULTS)
    width = fields.integer("hidden_size") // fields.integer("num_attention_heads")
    shape, attention = latent_decoder(fields, max(1, width))
    biased = fields.flag("mlp_bias", default=False)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, shape.all_layers),
        *blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), shape.all_layers, biased=biased),
    ]
    return architecture(fields, shape, made, caches(shape, attention))
