"""deepseek_v4: a short window in every layer, and behind it one vector for every few tokens, picked by an indexer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache import LatentCache, Mixer, RecurrentCache, SlidingCache
from service.domain.configs import blocks, latent_blocks, layer_kinds, moe
from service.domain.configs.base import HIDDEN, Decoder, architecture, frame
from service.domain.configs.blocks import Heads, matrix, vector
from service.domain.configs.deepseek_v3 import MAX_PREDICTION_LAYERS, experts, fusion
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Indexer
from service.domain.configs.recurrent_blocks import FOUR_BYTES

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
    shape = _shape(fields)
    few, many = _kinds(fields, shape)
    index = latent_blocks.indexer(fields)
    rates = {word: _rate(fields, word) for word in (_FEW, _MANY)}
    made = [
        *frame(shape),
        *_attention(fields, shape, shape.all_layers),
        *_compressor(shape, many, rates[_MANY], shape.heads.key_width),
        *_compressor(shape, few, rates[_FEW], 2 * shape.heads.key_width),
        *_indexer(fields, shape, index, few, rates[_FEW]),
        *moe.modules(shape.hidden, _experts(fields), shape.all_layers),
        *_streams(fields, shape, shape.all_layers),
        *_stream_head(fields, shape),
        *_predicted(fields, shape),
    ]
    window = SlidingCache(1, shape.heads.key_width, 0, fields.integer("sliding_window"))
    caches = [CacheLayers(window, shape.all_layers, shape.heads.query)]
    caches += _compressed(shape, many, rates[_MANY], None) + _compressed(shape, few, rates[_FEW], index)
    return architecture(fields, shape, made, tuple(caches))


def _shape(fields: Fields) -> Decoder:
    width = fields.integer("head_dim")
    if fields.integer("num_key_value_heads", default=1) != 1:
        raise fields.refuse("num_key_value_heads", "Only one KV head is known here.")
    return Decoder(
        layers=fields.layers(),
        hidden=fields.integer(*HIDDEN),
        heads=Heads(fields.integer("num_attention_heads"), 1, width, width),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False),
    )


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


def _attention(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """Compressed queries, one key, and an output in groups of heads."""
    heads, width, hidden = shape.heads.query, shape.heads.key_width, shape.hidden
    rank, groups, out = fields.integer("q_lora_rank"), fields.integer("o_groups"), fields.integer("o_lora_rank")
    if heads % groups:
        raise fields.refuse("o_groups", f"{heads} heads do not divide into {groups} groups.")
    return [
        matrix("q_a_proj", _ATTENTION, rank, hidden, layers, _WHOLE),
        vector("q_a_norm", rank, layers),
        matrix("q_b_proj", _ATTENTION, heads * width, rank, layers, _ROWS, heads),
        matrix("kv_proj", _ATTENTION, width, hidden, layers, _WHOLE),
        vector("kv_norm", width, layers),
        matrix("sinks", ModuleKind.BIAS, heads, 1, layers, _ROWS, heads),
        matrix("o_a_proj", _ATTENTION, groups * out, heads * width // groups, layers, _ROWS, groups),
        matrix("o_b_proj", _ATTENTION, hidden, groups * out, layers, Shard.COLUMNS, groups),
    ]


def _compressor(shape: Decoder, layers: tuple[int, ...], rate: int, width: int) -> list[Module]:
    if not layers:
        return []
    return [
        matrix("compressor.kv_proj", _ATTENTION, width, shape.hidden, layers, _WHOLE),
        matrix("compressor.gate_proj", _ATTENTION, width, shape.hidden, layers, _WHOLE),
        vector("compressor.norm", shape.heads.key_width, layers),
        matrix("compressor.position_bias", _NORM, rate, width, layers, _WHOLE),
    ]


def _indexer(fields: Fields, shape: Decoder, index: Indexer, layers: tuple[int, ...], rate: int) -> list[Module]:
    if not layers:
        return []
    hidden, width = shape.hidden, index.width
    rank = fields.integer("q_lora_rank")
    return [
        matrix("indexer.kv_proj", _INDEX, 2 * width, hidden, layers, _WHOLE),
        matrix("indexer.gate_proj", _INDEX, 2 * width, hidden, layers, _WHOLE),
        matrix("indexer.position_bias", _NORM, rate, 2 * width, layers, _WHOLE),
        vector("indexer.norm", width, layers),
        matrix("indexer.q_b_proj", _INDEX, index.heads * width, rank, layers, _WHOLE),
        matrix("indexer.weights_proj", _INDEX, index.heads, hidden, layers, _WHOLE),
    ]


def _experts(fields: Fields) -> moe.Experts:
    """Its code has one shared expert of a routed one's width."""
    found = experts(fields)
    return replace(found, shared=found.width)


def _streams(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """Several residual streams, mixed before attention and before the MLP of each layer."""
    streams = fields.integer("hc_mult", most=64)
    mixed = streams * (streams + 2)
    return [
        Module("stream_mix", _NORM, mixed, streams * shape.hidden, layers, 2, 2),
        vector("stream_mix.base", mixed, layers, per_layer=2),
        vector("stream_mix.scale", 3, layers, per_layer=2),
    ]


def _stream_head(fields: Fields, shape: Decoder) -> list[Module]:
    """What makes one stream of them before the head."""
    streams, last = fields.integer("hc_mult", most=64), Place.LAST
    return [
        Module("stream_head", _NORM, streams, streams * shape.hidden, place=last),
        blocks.edge_vector("stream_head.base", streams, last),
        blocks.edge_vector("stream_head.scale", 1, last),
    ]


def _predicted(fields: Fields, shape: Decoder) -> list[Module]:
    """Prediction layers attend within the window alone and have a stream head each."""
    count = fields.integer("num_nextn_predict_layers", default=0, least=0, most=MAX_PREDICTION_LAYERS)
    layers = tuple(range(shape.layers, shape.layers + count))
    if not layers:
        return []
    made = [
        *_attention(fields, shape, layers),
        *moe.modules(shape.hidden, _experts(fields), layers),
        *_streams(fields, shape, layers),
        *fusion(shape.hidden, layers),
    ]
    heads = [replace(m, per_layer=count, active_per_layer=count) for m in _stream_head(fields, shape)]
    return blocks.prediction([*made, *heads])


def _compressed(shape: Decoder, layers: tuple[int, ...], rate: int, index: Indexer | None) -> list[CacheLayers]:
    """One vector for `rate` tokens; where an indexer picks them its keys too; and the inputs still to be compressed.

    Overlapping groups, which the indexed layers have, hold twice the tokens in twice the width, with a gate for each
    element, in 32 bits (vLLM `models/deepseek_v4/compressor.py`).
    """
    if not layers:
        return []
    width, overlap = shape.heads.key_width, 2 if index else 1
    picked = rate * index.picked_tokens if index else None
    made = [CacheLayers(LatentCache(width, width, rate, picked), layers, shape.heads.query)]
    widths = [width]
    if index:
        made += latent_blocks.index_caches(index, layers, tokens_per_row=rate)
        widths.append(index.width)
    for each in widths:
        state = RecurrentCache(
            Mixer.COMPRESSOR, 1, overlap * rate, 2 * overlap * each, 0, 0, state_element_bytes=FOUR_BYTES
        )
        made.append(CacheLayers(state, layers, 0))
    return made
