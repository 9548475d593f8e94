"""deepseek_v32 and glm_moe_dsa (GLM 5): latent attention that reads only the tokens an indexer picks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import latent_blocks, layer_kinds
from service.domain.configs.base import Decoder, architecture, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import latent_decoder, mlps, predicted

MODEL_TYPES = ("deepseek_v32", "glm_moe_dsa")
_DEEPSEEK: Mapping[str, Any] = {
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
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "max_position_embeddings": 163840,
    "index_topk": 2048,
    "index_head_dim": 128,
    "index_n_heads": 64,
}
_GLM: Mapping[str, Any] = {
    **_DEEPSEEK,
    "vocab_size": 154880,
    "hidden_size": 6144,
    "intermediate_size": 12288,
    "num_hidden_layers": 78,
    "num_attention_heads": 64,
    "q_lora_rank": 2048,
    "qk_nope_head_dim": 192,
    "v_head_dim": 256,
    "max_position_embeddings": 202752,
    "index_n_heads": 32,
}
_DEFAULTS = {"deepseek_v32": _DEEPSEEK, "glm_moe_dsa": _GLM}
_OWNS, _SHARES = "full", "shared"


def read(fields: Fields) -> Architecture:
    """A vector and an index key for each token; GLM 5.2's layers share what an earlier one picked."""
    kind = fields.text("model_type") or "deepseek_v32"
    fields = fields.defaulting(_DEFAULTS[kind])
    shape, attention = latent_decoder(fields)
    layer_kinds.listed(fields, ("layer_types",), (layer_kinds.INDEXED,), shape.layers)
    index = latent_blocks.indexer(fields)
    owners, readers = _owners(fields, shape) if kind == "glm_moe_dsa" else (shape.all_layers, ())
    rank = fields.integer("q_lora_rank")
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, shape.all_layers),
        *latent_blocks.index_modules(shape.hidden, rank, index, owners),
        *mlps(fields, shape),
    ]
    extra = latent_blocks.index_modules(shape.hidden, rank, index, (shape.layers,))
    made += predicted(fields, shape, attention, tables=kind != "glm_moe_dsa", extra=tuple(extra))
    caches = latent_blocks.caches(attention, shape.all_layers, index.picked_tokens)
    return architecture(fields, shape, made, caches + latent_blocks.index_caches(index, owners, readers))


def _owners(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers with an indexer of their own, and those that read another's picks: never the first."""
    name, owners = _named_owners(fields, shape)
    if 0 not in owners:
        raise fields.refuse(name, "The first layer must pick for itself: there is no earlier one to share with.")
    return split(shape.all_layers, set(owners).__contains__)


def _named_owners(fields: Fields, shape: Decoder) -> tuple[str, tuple[int, ...]]:
    """The field that decides it, and the layers with an indexer of their own."""
    words = fields.choices("indexer_types", (_OWNS, _SHARES), shape.layers)
    if words is not None:
        return "indexer_types", tuple(layer for layer in shape.all_layers if words[layer] == _OWNS)
    if fields.has("index_topk_pattern"):
        return "index_topk_pattern", _patterned(fields, shape)
    every = max(1, fields.integer("index_topk_freq", default=1, least=0))
    behind = fields.integer("index_skip_topk_offset", default=2, least=0) - 1
    owners = tuple(layer for layer in shape.all_layers if max(layer - behind, 0) % every == 0)
    return "index_skip_topk_offset", owners


def _patterned(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    pattern = fields.get("index_topk_pattern")
    letters = {"F": _OWNS, "S": _SHARES, _OWNS: _OWNS, _SHARES: _SHARES}
    if not isinstance(pattern, list | str) or len(pattern) < shape.layers:
        raise fields.refuse("index_topk_pattern", f"index_topk_pattern must say F or S for {shape.layers} layers.")
    marks = list(pattern[: shape.layers])
    if not all(isinstance(mark, str) and mark in letters for mark in marks):
        raise fields.refuse("index_topk_pattern", "index_topk_pattern must say F or S for each layer.")
    return tuple(layer for layer in shape.all_layers if letters[marks[layer]] == _OWNS)
