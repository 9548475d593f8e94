"""deepseek (DeepSeek-MoE), and deepseek_v2 without latents: plain attention, first layers dense, shared experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense
from service.domain.configs.base import architecture, decoder, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import mlps

MODEL_TYPES = ("deepseek",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "moe_intermediate_size": 1407,
    "num_hidden_layers": 30,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "first_k_dense_replace": 0,
    "max_position_embeddings": 2048,
}


def read(fields: Fields) -> Architecture:
    """Every layer keeps keys and values of all heads."""
    return read_plain(fields.defaulting(DEFAULTS))


def is_plain(fields: Fields) -> bool:
    """Whether a deepseek_v2 has no latents: its file says so, or gives their heads no width."""
    widths = [fields.integer(name, least=0) for name in ("qk_nope_head_dim", "qk_rope_head_dim")]
    return not (any(widths) and fields.flag("use_mla", default=True))


def read_plain(fields: Fields) -> Architecture:
    """Read it with the defaults that the fields have; ranks and widths of latents count for nothing."""
    fields.get("kv_lora_rank", "v_head_dim")
    shape, biased = decoder(fields), fields.flag("attention_bias", default=False)
    made = [
        *frame(shape),
        *dense.attention(shape, dense.Layer(qkv_bias=biased, out_bias=biased), shape.all_layers),
        *mlps(fields, shape),
    ]
    return architecture(fields, shape, made, blocks.caches(shape.heads, (None,) * shape.layers))
