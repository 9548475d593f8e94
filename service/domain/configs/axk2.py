"""axk2 (A.X K2): deepseek_v32 whose queries come with a gate of the output, and whose norms are gated by a low rank."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import latent_blocks, layer_kinds
from service.domain.configs.base import Decoder, architecture, frame
from service.domain.configs.blocks import matrix
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Latent
from service.domain.configs.latent_decoders import latent_decoder, mlps, sparse_layers

MODEL_TYPES = ("axk2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 163840,
    "hidden_size": 2048,
    "intermediate_size": 5120,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "n_shared_experts": 1,
    "n_routed_experts": 128,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 128,
    "q_lora_rank": 384,
    "qk_nope_head_dim": 64,
    "qk_rope_head_dim": 32,
    "v_head_dim": 64,
    "max_position_embeddings": 131072,
    "index_topk": 2048,
    "index_head_dim": 128,
    "index_n_heads": 16,
    "gated_norm_rank": 16,
}


def read(fields: Fields) -> Architecture:
    """A vector and an index key for each token, in every layer."""
    fields = fields.defaulting(DEFAULTS)
    shape, attention = latent_decoder(fields)
    layer_kinds.listed(fields, ("layer_types",), (layer_kinds.INDEXED,), shape.layers)
    index, rank = latent_blocks.indexer(fields), fields.integer("q_lora_rank")
    made = [
        *frame(shape),
        *_attention(shape, attention, rank),
        *latent_blocks.index_modules(shape.hidden, rank, index, shape.all_layers),
        *mlps(fields, shape),
        *_norm_gates(fields, shape),
    ]
    caches = latent_blocks.caches(attention, shape.all_layers, index.picked_tokens)
    return architecture(fields, shape, made, caches + latent_blocks.index_caches(index, shape.all_layers))


def _attention(shape: Decoder, attention: Latent, rank: int) -> list[Module]:
    """One matrix makes queries and gates from the compressed query, normed and not."""
    heads, layers = attention.query_heads, shape.all_layers
    rows = heads * (attention.heads.key_width + attention.value_width)
    joined = matrix("q_gate_proj", ModuleKind.ATTENTION, rows, 2 * rank, layers, Shard.ROWS, heads)
    made = latent_blocks.attention(shape.hidden, replace(attention, query_rank=rank), layers)
    return [joined if module.name == "q_b_proj" else module for module in made]


def _norm_gates(fields: Fields, shape: Decoder) -> list[Module]:
    """A gate of low rank behind each layer's first norm, and behind the second where it feeds experts."""
    rank, whole = fields.integer("gated_norm_rank"), Shard.REPLICATED
    made = []
    for name, layers in (("input_norm", shape.all_layers), ("experts_norm", sparse_layers(fields, shape))):
        made.append(matrix(f"{name}.gate_in", ModuleKind.ATTENTION, rank, shape.hidden, layers, whole))
        made.append(matrix(f"{name}.gate_out", ModuleKind.ATTENTION, shape.hidden, rank, layers, whole))
    return [module for module in made if module.layers]
