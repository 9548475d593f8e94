"""glm4_moe_lite (GLM 4.7 Flash): DeepSeek's latent attention and experts, one dense layer first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import latent_blocks
from service.domain.configs.base import architecture, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import caches, latent_decoder, mlps, predicted

MODEL_TYPES = ("glm4_moe_lite",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 154880,
    "hidden_size": 2048,
    "intermediate_size": 10240,
    "moe_intermediate_size": 1536,
    "num_hidden_layers": 47,
    "num_attention_heads": 20,
    "n_shared_experts": 1,
    "n_routed_experts": 64,
    "num_experts_per_tok": 4,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 512,
    "q_lora_rank": 768,
    "qk_nope_head_dim": 192,
    "qk_rope_head_dim": 64,
    "v_head_dim": 256,
    "max_position_embeddings": 202752,
}


def read(fields: Fields) -> Architecture:
    """One vector a token in every layer."""
    fields = fields.defaulting(DEFAULTS)
    shape, attention = latent_decoder(fields)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, shape.all_layers),
        *mlps(fields, shape),
        *predicted(fields, shape, attention),
    ]
    return architecture(fields, shape, made, caches(shape, attention))
