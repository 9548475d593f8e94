"""glm4_moe (GLM-4.5 to 4.7) and sarvam_moe, of the same class: experts behind the first layers, shared ones too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import MAX_EXPERTS, Decoder, decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("glm4_moe", "sarvam_moe")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 151552,
    "hidden_size": 4096,
    "intermediate_size": 10944,
    "num_hidden_layers": 46,
    "num_attention_heads": 96,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "moe_intermediate_size": 1408,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "partial_rotary_factor": 0.5,
}
_SARVAM: Mapping[str, Any] = {
    "vocab_size": 262144,
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 19,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "moe_intermediate_size": 1024,
    "n_routed_experts": 128,
    "num_experts_per_tok": 6,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "use_qk_norm": True,
}


def read(fields: Fields) -> Architecture:
    """A prediction layer has experts; most checkpoints store table and head again for it (4.6 does not)."""
    fields = fields.defaulting(_SARVAM if fields.text("model_type") == "sarvam_moe" else DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(
        qkv_bias=fields.flag("attention_bias", "use_qkv_bias", default=False),
        head_norms=fields.flag("use_qk_norm", default=False),
    )
    experts = routed(fields)
    behind = moe.predicted_layers(fields, shape)
    mlp = moe.modules(shape.hidden, moe.stored(experts), behind)
    if behind:
        mlp += tables(shape, behind)
    extra = moe.prediction(shape, layer, mlp, behind)
    return moe.read(fields, shape, layer, experts, sparse=moe.sparse_layers(fields, shape.layers), extra=extra)


def routed(fields: Fields) -> moe.Experts:
    """Routed and shared experts of one width."""
    count, active = routing(fields, ("n_routed_experts", "num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("n_shared_experts", "num_shared_experts", least=0, most=MAX_EXPERTS) * width
    return moe.Experts(count=count, active=active, width=width, shared=shared)


def tables(shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """The table and the head that a checkpoint stores again for its prediction layers."""
    sizes = (shape.vocabulary, shape.hidden, layers, Shard.ROWS)
    return [
        blocks.matrix("embed_tokens", ModuleKind.EMBEDDING, *sizes),
        blocks.matrix("lm_head", ModuleKind.HEAD, *sizes),
    ]
