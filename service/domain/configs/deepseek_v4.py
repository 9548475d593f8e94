"""deepseek_v4: a short window in every layer, and behind it one vector for every few tokens, picked by an indexer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.sliding import SlidingCache
from service.domain.configs import blocks, latent_blocks, layer_kinds, moe, prediction_blocks
from service.domain.configs import deepseek_v4_parts as parts
from service.domain.configs.base import Decoder, architecture, frame
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import experts

MODEL_TYPES = ("deepseek_v4",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 4096,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 43,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1024,
    "num_experts_per_tok": 6,
    "n_routed_experts": 256,
    "n_shared_experts": 1,
    "max_position_embeddings": 1048576,
    "hc_mult": 4,
    "sliding_window": 128,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "index_n_heads": 64,
    "index_head_dim": 128,
    "index_topk": 512,
}
_FEW, _MANY, _NONE = "compressed_sparse_attention", "heavily_compressed_attention", layer_kinds.SLIDING
_RATIOS = {_FEW: 4, _MANY: 128, _NONE: 0}
_RATE_FIELDS = {_FEW: "compress_rate_csa", _MANY: "compress_rate_hca"}
_ATTENTION, _INDEX, _NORM = ModuleKind.ATTENTION, ModuleKind.INDEXER, ModuleKind.NORM
_ROWS, _WHOLE = Shard.ROWS, Shard.REPLICATED


def read(fields: Fields) -> Architecture:
    """Keys are read as values, so a token's or a group's vector is kept once."""
    fields = fields.defaulting(DEFAULTS)
    shape = parts.decoder(fields)
    few, many = _kinds(fields, shape)
    index = latent_blocks.indexer(fields)
    rates = {word: _rate(fields, word) for word in (_FEW, _MANY)}
    made = [
        *frame(shape),
        *parts.attention(fields, shape, shape.all_layers),
        *parts.compressor(shape, many, rates[_MANY], shape.heads.key_width),
        *parts.compressor(shape, few, rates[_FEW], 2 * shape.heads.key_width),
        *parts.indexer(fields, shape, index, few, rates[_FEW]),
        *_mlps(fields, shape),
        *parts.streams(fields, shape, shape.all_layers),
        *parts.stream_head(fields, shape),
        *_predicted(fields, shape),
    ]
    window = SlidingCache(1, shape.heads.key_width, 0, fields.integer("sliding_window"))
    caches = [CacheLayers(window, shape.all_layers, shape.heads.query)]
    caches += parts.compressed(shape, many, rates[_MANY], None) + parts.compressed(shape, few, rates[_FEW], index)
    return architecture(fields, shape, made, tuple(caches))


def _rate(fields: Fields, word: str) -> int:
    rates = fields.inner("compress_rates")
    stated = fields.optional(_RATE_FIELDS[word]) or (rates.optional(word) if rates else None)
    return stated or _RATIOS[word]


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers that compress a few tokens, and those that compress many."""
    words = layer_kinds.listed(fields, ("layer_types",), tuple(_RATIOS), shape.layers)
    ratios = fields.per_layer("compress_ratios", shape.layers)
    if words is None and ratios is not None:
        named = {ratio: word for word, ratio in _RATIOS.items()}
        if unknown := set(ratios) - set(named):
            raise fields.refuse("compress_ratios", f"compress_ratios has {min(unknown)}; known are 0, 4 and 128.")
        words = tuple(named[ratio] for ratio in ratios)
    words = words or tuple(_FEW if layer > 1 and layer % 2 else _MANY for layer in shape.all_layers)
    return layer_kinds.of(words, _FEW), layer_kinds.of(words, _MANY)


def _experts(fields: Fields) -> moe.Experts:
    """Its code has one shared expert of a routed one's width, which no dense MLP shares its other name with."""
    found = experts(fields, ("moe_intermediate_size", "intermediate_size"))
    return replace(found, shared=found.width)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    biased = fields.flag("mlp_bias", default=False)
    return moe.modules(shape.hidden, _experts(fields), shape.all_layers, shared_bias=biased)


def _predicted(fields: Fields, shape: Decoder) -> list[Module]:
    """Prediction layers attend within the window alone and have a stream head each."""
    layers = moe.predicted_layers(fields, shape)
    if not layers:
        return []
    made = [
        *parts.attention(fields, shape, layers),
        *moe.modules(shape.hidden, moe.stored(_experts(fields)), layers),
        *parts.streams(fields, shape, layers),
        *prediction_blocks.fusion(shape.hidden, layers),
    ]
    heads = [replace(m, per_layer=len(layers), active_per_layer=len(layers)) for m in parts.stream_head(fields, shape)]
    return blocks.prediction([*made, *heads])
