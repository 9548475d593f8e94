"""deepseek_v2, deepseek_v3, kimi_k2 and mistral4: latent attention, first layers dense and the others with experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.configs import blocks, latent_blocks, moe
from service.domain.configs.base import HIDDEN, MAX_EXPERTS, Decoder, architecture, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Latent

MODEL_TYPES = ("deepseek_v2", "deepseek_v3", "kimi_k2", "mistral4")
EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")
MAX_PREDICTION_LAYERS = 64
PREDICTION_LAYERS = ("num_nextn_predict_layers", "num_mtp_layers")
DENSE, SPARSE = "dense", "sparse"

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
_DEFAULTS = {"deepseek_v2": _V2, "deepseek_v3": _V3, "kimi_k2": _V3, "mistral4": _MISTRAL}


def read(fields: Fields) -> Architecture:
    """Every layer keeps one vector a token; prediction layers stand apart."""
    fields = fields.defaulting(_DEFAULTS[fields.text("model_type") or "deepseek_v3"])
    shape, attention = latent_decoder(fields)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, shape.all_layers),
        *mlps(fields, shape, first_dense(fields, shape)),
    ]
    made += predicted(fields, shape, attention)
    return architecture(fields, shape, made, caches(shape, attention))


def latent_decoder(fields: Fields, value_width: int | None = None) -> tuple[Decoder, Latent]:
    """The sizes of a decoder whose attention is latent."""
    attention = latent_blocks.latent(fields, value_width)
    shape = Decoder(
        layers=fields.layers(),
        hidden=fields.integer(*HIDDEN),
        heads=attention.heads,
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False),
    )
    return shape, attention


def caches(shape: Decoder, attention: Latent) -> tuple[CacheLayers, ...]:
    """A vector in every layer."""
    return latent_blocks.caches(attention, shape.all_layers)


def first_dense(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """The layers with experts: all but the first `first_k_dense_replace`; refuses other spacings."""
    if fields.integer("moe_layer_freq", default=1) != 1:
        raise fields.refuse("moe_layer_freq", "Only experts in every layer behind the dense ones are known.")
    dense = fields.integer("first_k_dense_replace", default=0, least=0)
    return shape.all_layers[dense:]


def listed_sparse(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """The layers with experts by `mlp_layer_types`, or else by how many are dense."""
    words = fields.choices("mlp_layer_types", (DENSE, SPARSE), shape.layers)
    if words is None:
        return first_dense(fields, shape)
    return tuple(layer for layer, word in enumerate(words) if word == SPARSE)


def experts(fields: Fields) -> moe.Experts:
    """Routed experts, and the shared ones as one MLP of their joint width."""
    count = fields.integer(*EXPERTS, most=MAX_EXPERTS)
    # deepseek_v2's class has a null here, which no model runs with: a null is a silence.
    active = fields.integer("num_experts_per_tok", default=fields.defaults.get("num_experts_per_tok"))
    if active > count:
        raise fields.refuse("num_experts_per_tok", f"A token cannot visit {active} of {count} experts.")
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("n_shared_experts", default=0, least=0)
    return moe.Experts(count=count, active=active, width=width, shared=shared * width)


def mlps(fields: Fields, shape: Decoder, sparse: tuple[int, ...]) -> list[Module]:
    """Experts in the sparse layers, a gated MLP in the others."""
    _, plain = split(shape.all_layers, set(sparse).__contains__)
    made = moe.modules(shape.hidden, experts(fields), sparse) if sparse else []
    biased = fields.text("model_type") == "deepseek_v2" and fields.flag("mlp_bias", default=False)
    if plain:
        made += blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain, biased=biased)
    return made + _shared_biases(shape.hidden, experts(fields).shared, sparse) if biased else made


def _shared_biases(hidden: int, width: int, layers: tuple[int, ...]) -> list[Module]:
    shared = blocks.gated_mlp(hidden, width, layers, ModuleKind.SHARED_EXPERT, biased=True) if layers and width else []
    return [replace(m, name=f"shared_expert.{m.name}") for m in shared if m.kind is ModuleKind.BIAS]


def predicted(
    fields: Fields, shape: Decoder, attention: Latent, *, tables: bool = True, extra: tuple[Module, ...] = ()
) -> list[Module]:
    """Prediction layers: a layer with experts, and what fuses a hidden state with a token.

    DeepSeek's checkpoints store table and head again with them, GLM 5's do not (`tables`).
    """
    count = fields.integer(*PREDICTION_LAYERS, default=0, least=0, most=MAX_PREDICTION_LAYERS)
    layers = tuple(range(shape.layers, shape.layers + count))
    if not layers:
        return []
    made = [
        *latent_blocks.attention(shape.hidden, attention, layers),
        *moe.modules(shape.hidden, experts(fields), layers),
        *fusion(shape.hidden, layers),
        *extra,
    ]
    if tables:
        kind, rows = ModuleKind.PREDICTION, Shard.ROWS
        made.append(blocks.matrix("embed_tokens", kind, shape.vocabulary, shape.hidden, layers, rows))
        made.append(blocks.matrix("lm_head", kind, shape.vocabulary, shape.hidden, layers, rows))
    return blocks.prediction(made)


def fusion(hidden: int, layers: tuple[int, ...]) -> list[Module]:
    """A projection of two hidden sizes to one and five norms: the layer's own two, and three around the projection."""
    fused = blocks.matrix("eh_proj", ModuleKind.PREDICTION, hidden, 2 * hidden, layers, Shard.REPLICATED)
    return [fused, blocks.vector("norms", hidden, layers, per_layer=5)]
