"""deepseek_v2 and v3, axk1, kimi_k2, mistral4 and sarvam_mla: latent attention, experts behind the first layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, deepseek, latent_blocks
from service.domain.configs.base import architecture, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import caches, latent_decoder, mlps, predicted, sparse_layers

MODEL_TYPES = ("deepseek_v2", "deepseek_v3", "axk1", "kimi_k2", "mistral4", "sarvam_mla")

_V2: Mapping[str, Any] = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "moe_intermediate_size": 1407,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "n_shared_experts": 2,
    "n_routed_experts": 64,
    "num_experts_per_tok": 6,
    "first_k_dense_replace": 0,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 2048,
}
_V3: Mapping[str, Any] = {
    **_V2,
    "vocab_size": 129280,
    "hidden_size": 7168,
    "intermediate_size": 18432,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 61,
    "num_attention_heads": 128,
    "n_shared_experts": 1,
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "max_position_embeddings": 4096,
}
_MISTRAL: Mapping[str, Any] = {
    **_V2,
    "vocab_size": 131072,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 36,
    "n_shared_experts": 1,
    "n_routed_experts": 128,
    "num_experts_per_tok": 4,
    "kv_lora_rank": 256,
    "q_lora_rank": 1024,
    "qk_nope_head_dim": 64,
    "max_position_embeddings": 1048576,
}
_SARVAM: Mapping[str, Any] = {
    **_V2,
    "vocab_size": 262144,
    "intermediate_size": 16384,
    "moe_intermediate_size": 2048,
    "num_attention_heads": 64,
    "n_shared_experts": 1,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "q_lora_rank": None,
    "max_position_embeddings": 4096,
}
_AXK1: Mapping[str, Any] = {
    **_V3,
    "vocab_size": 163840,
    "num_attention_heads": 64,
    "n_routed_experts": 192,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 32768,
}
_DEFAULTS = {
    "deepseek_v2": _V2,
    "deepseek_v3": _V3,
    "axk1": _AXK1,
    "kimi_k2": _V3,
    "mistral4": _MISTRAL,
    "sarvam_mla": _SARVAM,
}


def read(fields: Fields) -> Architecture:
    """Every layer keeps one vector a token; prediction layers stand apart."""
    kind = fields.text("model_type") or "deepseek_v3"
    fields = fields.defaulting(_DEFAULTS[kind])
    if kind == "deepseek_v2" and deepseek.is_plain(fields):
        return deepseek.read_plain(fields)
    shape, attention = latent_decoder(fields)
    biased = kind == "deepseek_v2" and fields.flag("mlp_bias", default=False)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, shape.all_layers),
        *mlps(fields, shape, biased=biased),
        *predicted(fields, shape, attention),
    ]
    if kind == "axk1":
        made.append(blocks.vector("post_mlp_norm", shape.hidden, sparse_layers(fields, shape)))
    return architecture(fields, shape, made, caches(shape, attention))
