"""qwen3_vl, qwen3_vl_moe, qwen3_5, qwen3_5_moe and qwen4_exp: one encoder before a qwen3 or one of its successors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import qwen_vision
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("qwen3_vl", "qwen3_vl_moe", "qwen3_5", "qwen3_5_moe", "qwen4_exp")
_DENSE: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "head_dim": 128,
    "max_position_embeddings": 128000,
}
_MOE: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 128000,
    "moe_intermediate_size": 1408,
    "num_experts_per_tok": 4,
    "num_experts": 60,
}
_DEFAULTS = {"qwen3_vl": _DENSE, "qwen3_vl_moe": _MOE}
_TEXT = {
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "qwen3_5": "qwen3_5_text",
    "qwen3_5_moe": "qwen3_5_moe_text",
    "qwen4_exp": "qwen4_exp_text",
}
_RENAMED = {"qwen3_vl_text": "qwen3", "qwen3_vl_moe_text": "qwen3_moe"}


def read(fields: Fields) -> Architecture:
    """The third generation feeds its decoder from several of the encoder's layers, 3.5 from the last alone."""
    kind = fields.text("model_type") or "qwen3_vl"
    text = read_text(fields, _TEXT[kind], Tying(), defaults=_DEFAULTS.get(kind, {}), renamed=_RENAMED)

    def encode(inner: Fields) -> list[Module]:
        return qwen_vision.third(inner, deepstack=kind in _DEFAULTS)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)
