"""bailing_hybrid (Ling 3): Kimi delta attention, and gated latent attention in the last layer of each group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.configs import blocks, latent_blocks, layer_kinds, moe, prediction_blocks
from service.domain.configs.base import MAX_EXPERTS, Decoder, architecture, frame, routing, split
from service.domain.configs.fields import Fields, shown
from service.domain.configs.latent_blocks import Latent
from service.domain.configs.latent_decoders import latent_decoder
from service.domain.configs.recurrent_blocks import KimiDelta

MODEL_TYPES = ("bailing_hybrid",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 157184,
    "hidden_size": 2560,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_hidden_layers": 42,
    "num_attention_heads": 32,
    "head_dim": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 262144,
    "first_k_dense_replace": 2,
    "num_experts": 512,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
    "short_conv_kernel_size": 4,
    "layer_group_size": 6,
    "num_nextn_predict_layers": 1,
}
_GATES = "gated_attention_proj_granularity_type"
_DELTA = ("short_conv_kernel_size", "linear_conv_kernel_dim", "kda_safe_gate", "kda_lower_bound")


def read(fields: Fields) -> Architecture:
    """Ling 2.5 and 2.6 go by the same name and have another linear attention, which is refused."""
    fields = fields.defaulting(DEFAULTS)
    _refuse_others(fields)
    shape, attention = latent_decoder(fields)
    attending, mixing = _kinds(fields, shape)
    width = fields.integer("linear_head_dim", default=fields.integer("head_dim"))
    heads, kernel = shape.heads.query, fields.integer("short_conv_kernel_size", "linear_conv_kernel_dim")
    mixer = KimiDelta(heads, width, kernel, heads, full_gate=True, full_decay=True)
    made = [
        *frame(shape),
        *_latent(shape, attention, attending),
        *mixer.modules(shape.hidden, mixing),
        *_mlps(fields, shape),
        *_predicted(fields, shape, attention),
    ]
    caches = latent_blocks.caches(attention, attending)
    caches += (CacheLayers(mixer.cache(), mixing, 0),) if mixing else ()
    return architecture(fields, shape, made, caches)


def _refuse_others(fields: Fields) -> None:
    if not fields.has(*_DELTA):
        raise fields.refuse(
            _DELTA[0], "Of this family only Ling 3 is known, whose files state a short_conv_kernel_size."
        )
    if not fields.flag("no_kda_lora", default=True):
        raise fields.refuse("no_kda_lora", "Only projections of full rank are known here.")
    gates = fields.text(_GATES) or "head_wise"
    if gates != "head_wise":
        raise fields.refuse(_GATES, f"Only a gate for each head is known here, not {shown(gates)}.")


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    words = layer_kinds.listed(fields, ("layer_types",), (layer_kinds.LINEAR, layer_kinds.FULL), shape.layers)
    group = fields.integer("layer_group_size")
    if words is None:
        return split(shape.all_layers, lambda layer: (layer + 1) % group == 0)
    return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)


def _latent(shape: Decoder, attention: Latent, layers: tuple[int, ...]) -> list[Module]:
    """Latent attention with a gate for each head."""
    if not layers:
        return []
    heads = attention.query_heads
    gate = blocks.matrix("g_proj", ModuleKind.ATTENTION, heads, shape.hidden, layers, Shard.ROWS, heads)
    return [*latent_blocks.attention(shape.hidden, attention, layers), gate]


def _experts(fields: Fields) -> moe.Experts:
    count, active = routing(
        fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok", "num_experts_per_token")
    )
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("num_shared_experts", "n_shared_experts", least=0, most=MAX_EXPERTS)
    return moe.Experts(count=count, active=active, width=width, shared=shared * width)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    sparse, plain = split(shape.all_layers, set(moe.sparse_layers(fields, shape.layers)).__contains__)
    made = moe.modules(shape.hidden, _experts(fields), sparse)
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else made


def _predicted(fields: Fields, shape: Decoder, attention: Latent) -> list[Module]:
    """A prediction layer attends to latents and has experts."""
    layers = moe.predicted_layers(fields, shape)
    if not layers:
        return []
    made = [
        *_latent(shape, attention, layers),
        *moe.modules(shape.hidden, moe.stored(_experts(fields)), layers),
        *prediction_blocks.fusion(shape.hidden, layers),
    ]
    return blocks.prediction(made)
