"""longcat_flash: each layer holds two latent attentions and two MLPs beside its experts, some of which do nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import blocks, latent_blocks
from service.domain.configs.base import MAX_EXPERTS, Decoder, architecture, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import caches, latent_decoder

MODEL_TYPES = ("longcat_flash",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 6144,
    "num_hidden_layers": 28,
    "num_attention_heads": 64,
    "max_position_embeddings": 131072,
    "ffn_hidden_size": 12288,
    "expert_ffn_hidden_size": 2048,
    "q_lora_rank": 1536,
    "kv_lora_rank": 512,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 512,
    "zero_expert_num": 256,
    "moe_topk": 12,
}
_PER_LAYER = 2


def read(fields: Fields) -> Architecture:
    """`num_layers` counts pairs of attentions, and so does this reader; either of a pair keeps a cache."""
    if fields.has("num_layers"):
        fields = Fields({**fields.values, "num_hidden_layers": fields.get("num_layers")}, fields.pointer)
    fields = fields.defaulting(DEFAULTS)
    shape, attention = latent_decoder(fields)
    made = [
        *frame(shape, norms=2 * _PER_LAYER),
        *_paired(latent_blocks.attention(shape.hidden, attention, shape.all_layers)),
        *_paired(_mlp(fields, shape)),
        *_experts(fields, shape),
    ]
    return architecture(fields, shape, made, caches(shape, attention) * _PER_LAYER)


def _mlp(fields: Fields, shape: Decoder) -> list[Module]:
    width = fields.integer("ffn_hidden_size", "intermediate_size")
    return blocks.gated_mlp(shape.hidden, width, shape.all_layers)


def _experts(fields: Fields, shape: Decoder) -> list[Module]:
    """The router also scores the experts that pass their input on, which have no weights."""
    count = fields.integer("n_routed_experts", "num_local_experts", "num_experts", most=MAX_EXPERTS)
    idle = fields.integer("zero_expert_num", default=0, least=0, most=MAX_EXPERTS)
    active = fields.integer("moe_topk", "num_experts_per_tok", most=count)
    width = fields.integer("expert_ffn_hidden_size", "moe_intermediate_size")
    biased = fields.flag("router_bias", default=False)
    expert = blocks.gated_mlp(shape.hidden, width, shape.all_layers, ModuleKind.EXPERT)
    router = blocks.router(shape.hidden, count + idle, shape.all_layers, biased=biased)
    return [*router, *blocks.routed(expert, count, active)]


def _paired(modules: list[Module]) -> list[Module]:
    return [replace(m, per_layer=_PER_LAYER, active_per_layer=_PER_LAYER) for m in modules]
