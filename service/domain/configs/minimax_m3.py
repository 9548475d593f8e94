"""minimax_m3: attention over picked blocks of tokens with an index key beside it, experts behind dense layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.full import FullCache
from service.domain.configs import blocks, dense, latent_blocks, layer_kinds, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Indexer

MODEL_TYPES = ("minimax_m3", "minimax_m3_vl_text")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 200064,
    "hidden_size": 6144,
    "intermediate_size": 3072,
    "dense_intermediate_size": 12288,
    "shared_intermediate_size": 3072,
    "num_hidden_layers": 60,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "max_position_embeddings": 524288,
    "num_experts_per_tok": 4,
    "num_local_experts": 128,
}
_INDEXED = "minimax_m3_sparse"
_KIND, _WHOLE = ModuleKind, Shard.REPLICATED


def read(fields: Fields) -> Architecture:
    """All keys and values are kept; a step reads those of the blocks that an index picks."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    sparse, plain = split(shape.all_layers, set(moe.sparse_layers(fields, shape.layers, 0)).__contains__)
    indexed, whole = _indexed(fields, shape, sparse)
    index = _indexer(fields)
    made = [
        *frame(shape),
        *dense.attention(shape, dense.Layer(head_norms=True), shape.all_layers),
        *_index_modules(shape.hidden, index, indexed),
        *_experts(fields, shape, sparse),
    ]
    if plain:
        made += blocks.gated_mlp(shape.hidden, fields.integer("dense_intermediate_size"), plain)
    return architecture(fields, shape, made, _caches(shape, index, indexed, whole))


def _indexed(fields: Fields, shape: Decoder, sparse: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers with an index: as listed, or, in a file that keeps silent on it, those with experts (as published)."""
    words = layer_kinds.listed(fields, ("layer_types",), (_INDEXED, layer_kinds.FULL), shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == _INDEXED)
    inner = fields.inner("sparse_attention_config")
    marks = inner.per_layer("sparse_attention_freq", shape.layers, most=1) if inner else None
    if marks is not None:
        return split(shape.all_layers, lambda layer: marks[layer] == 1)
    published = fields.text("model_type") == "minimax_m3"
    return split(shape.all_layers, set(sparse if published else ()).__contains__)


def _indexer(fields: Fields) -> Indexer:
    inner = fields.inner("sparse_attention_config") or Fields({}, fields.pointer)
    block = inner.optional("sparse_block_size") or fields.integer("index_block_size", default=128)
    picked = inner.optional("sparse_topk_blocks") or fields.integer("index_topk_blocks", default=16)
    return Indexer(
        heads=inner.optional("sparse_num_index_heads") or fields.integer("index_n_heads", default=4),
        width=inner.optional("sparse_index_dim") or fields.integer("index_head_dim", default=128),
        picked_tokens=block * picked,
    )


def _index_modules(hidden: int, index: Indexer, layers: tuple[int, ...]) -> list[Module]:
    if not layers:
        return []
    return [
        blocks.matrix("indexer.q_proj", _KIND.INDEXER, index.heads * index.width, hidden, layers, _WHOLE),
        blocks.matrix("indexer.k_proj", _KIND.INDEXER, index.width, hidden, layers, _WHOLE),
        blocks.vector("indexer.norms", index.width, layers, per_layer=2),
    ]


def _experts(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    experts = moe.Experts(
        count=count,
        active=active,
        width=fields.integer("intermediate_size"),
        shared=fields.integer("shared_intermediate_size", default=0, least=0),
    )
    return moe.modules(shape.hidden, experts, layers)


def _caches(
    shape: Decoder, index: Indexer, indexed: tuple[int, ...], whole: tuple[int, ...]
) -> tuple[CacheLayers, ...]:
    heads = shape.heads
    picked = FullCache(heads.kv, heads.key_width, heads.value_width, index.picked_tokens)
    made = (CacheLayers(blocks.cache(heads, None), whole, heads.query), CacheLayers(picked, indexed, heads.query))
    return tuple(entry for entry in made if entry.layers) + latent_blocks.index_caches(index, indexed)
