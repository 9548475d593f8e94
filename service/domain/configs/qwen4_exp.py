"""The text part of qwen4_exp (Qwen3.8 Flash Next): qwen3_next's layers over several streams, sparse attention, n-grams.

Attention reads what an indexer of averaged keys picks, and some layers look tables of hashed n-grams up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.full import FullCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs import blocks, latent_blocks, layer_kinds, ngram_tables
from service.domain.configs import qwen3_next_parts as parts
from service.domain.configs.base import Decoder, architecture, decoder, frame, split
from service.domain.configs.blocks import matrix, vector
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Indexer
from service.domain.configs.qwen3_next import gated_delta, state_bytes
from service.domain.configs.recurrent_blocks import GatedDelta

MODEL_TYPES = ("qwen4_exp_text",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 248320,
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "full_attention_interval": 4,
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
    "mamba_ssm_dtype": "float32",
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "num_experts_per_tok": 10,
    "num_experts": 512,
    "hc_count": 4,
    "hc_lowrank": 320,
    "ple_conv_kernel_size": 4,
    "ngram_size": 3,
    "heads_per_ngram": 8,
    "ngram_vocab_size_base": 20_000_000,
    "make_ngram_vocab_size_divisible_by": 128,
}
_MIXER, _INDEX, _NORM, _WHOLE = ModuleKind.MIXER, ModuleKind.INDEXER, ModuleKind.NORM, Shard.REPLICATED
_KNOWN = (layer_kinds.LINEAR, layer_kinds.FULL, layer_kinds.INDEXED)
_HALF_BYTES, _POSITION_ELEMENTS = 2, 12
_MOST_STREAMS, _MOST_TABLES, _MOST_HEADS = 64, 8, 64


def read(fields: Fields) -> Architecture:
    """Norms belong to the streams; a prediction layer has an indexer and a mixer of streams of its own."""
    fields = fields.defaulting(DEFAULTS)
    shape, mixer, index = decoder(fields), gated_delta(fields), _indexer(fields)
    attending, mixing = _kinds(fields, shape)
    looking = _looking(fields, shape, mixing)
    made = [
        *frame(shape, norms=0),
        *_layers(fields, shape, index, attending, shape.all_layers),
        *mixer.modules(shape.hidden, mixing),
        *_last_mixer(fields, shape),
        *(module for number, layer in enumerate(looking) for module in _table(fields, shape, number, layer)),
        *_predicted(fields, shape, index),
    ]
    states = _states(fields, shape, mixer, mixing, looking)
    return architecture(fields, shape, made, _attended(shape, index, attending) + states)


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    words = layer_kinds.listed(fields, ("layer_types",), _KNOWN, shape.layers)
    every = fields.integer("full_attention_interval")
    if words is None:
        return split(shape.all_layers, lambda layer: (layer + 1) % every == 0)
    return split(shape.all_layers, lambda layer: words[layer] != layer_kinds.LINEAR)


def _indexer(fields: Fields) -> tuple[Indexer, int] | None:
    """The indexer and how many tokens are averaged for it; None where the file gives it no heads."""
    heads = fields.optional("indexer_n_heads")
    if heads is None:
        return None
    if fields.integer("indexer_kv_heads") != 1:
        raise fields.refuse("indexer_kv_heads", "Only one key of an indexer is known.")
    index = Indexer(heads, fields.integer("indexer_head_dim"), fields.integer("indexer_budget"))
    return index, fields.integer("indexer_compress_ratio", least=2)


def _looking(fields: Fields, shape: Decoder, mixing: tuple[int, ...]) -> tuple[int, ...]:
    """The layers that look n-grams up, counted from 1 in the file, all of them with a state."""
    listed = {layer - 1 for layer in fields.integers("ple_layer_ids", least=1, most=shape.layers)}
    if not listed <= set(mixing) or len(listed) > _MOST_TABLES:
        detail = f"ple_layer_ids must name at most {_MOST_TABLES} layers with linear attention."
        raise fields.refuse("ple_layer_ids", detail)
    return tuple(sorted(listed))


def _layers(
    fields: Fields, shape: Decoder, index: tuple[Indexer, int] | None, attending: tuple[int, ...], all_: tuple[int, ...]
) -> list[Module]:
    """What layers have beside a mixer of tokens: attention, experts, and a mixer of streams before either."""
    made = [*parts.attention(fields, shape, attending), *parts.mlps(fields, shape, all_)]
    if index and attending:
        width = index[0].width
        made.append(matrix("indexer.qk_proj", _INDEX, (index[0].heads + 1) * width, shape.hidden, attending, _WHOLE))
        made.append(vector("indexer.norms", width, attending, per_layer=2))
    joined, rank = _joined(fields, shape), fields.integer("hc_lowrank")
    streams = joined // shape.hidden
    return [
        *made,
        vector("stream_norms", joined, all_, per_layer=2),
        Module("stream_mix.down", _NORM, rank, joined, all_, 2, 2),
        Module("stream_mix.up", _NORM, joined, rank, all_, 2, 2),
        Module("stream_mix.inject", _NORM, streams, joined, all_, 2, 2),
    ]


def _joined(fields: Fields, shape: Decoder) -> int:
    return shape.hidden * fields.integer("hc_count", least=2, most=_MOST_STREAMS)


def _last_mixer(fields: Fields, shape: Decoder) -> list[Module]:
    """What makes one stream of them before the head."""
    joined, rank = _joined(fields, shape), fields.integer("hc_lowrank")
    return [
        blocks.edge_vector("stream_norm", joined, Place.LAST),
        Module("stream_head.down", _NORM, rank, joined, place=Place.LAST),
        Module("stream_head.up", _NORM, joined, rank, place=Place.LAST),
    ]


def _table(fields: Fields, shape: Decoder, number: int, layer: int) -> list[Module]:
    """The n-grams of every size from two on have heads of their own, each with a prime number of rows."""
    orders, joined, layers = fields.integer("ngram_size", least=2) - 1, _joined(fields, shape), (layer,)
    heads = orders * fields.integer("heads_per_ngram", most=_MOST_HEADS)
    width = fields.integer("ple_embed_dim", default=shape.hidden)
    if heads > _MOST_HEADS or width % heads:
        raise fields.refuse("ple_embed_dim", f"{width} does not divide into at most {_MOST_HEADS} heads of n-grams.")
    multiple = fields.integer("make_ngram_vocab_size_divisible_by")
    rows = ngram_tables.rows(fields.integer("ngram_vocab_size_base"), heads, number * heads, multiple)
    return [
        matrix("ple.ngrams", ModuleKind.EMBEDDING, rows, width // heads, layers, Shard.ROWS),
        matrix("ple.key_proj", _MIXER, joined, width, layers, _WHOLE),
        matrix("ple.value_proj", _MIXER, shape.hidden, width, layers, _WHOLE),
        vector("ple.norms", joined, layers, per_layer=3),
        matrix("ple.conv1d", _MIXER, joined, fields.integer("ple_conv_kernel_size"), layers, _WHOLE),
    ]


def _predicted(fields: Fields, shape: Decoder, index: tuple[Indexer, int] | None) -> list[Module]:
    layers = parts.predicted_layers(fields, shape)
    if not layers:
        return []
    hidden, joined = shape.hidden, _joined(fields, shape)
    made = [
        *_layers(fields, shape, index, layers, layers),
        matrix("fusion", ModuleKind.PREDICTION, 2 * hidden, hidden, layers, _WHOLE),
        vector("fusion_norms", joined + hidden, layers),
    ]
    return blocks.prediction([*made, *_last_mixer(fields, shape)])


def _attended(shape: Decoder, index: tuple[Indexer, int] | None, layers: tuple[int, ...]) -> tuple[CacheLayers, ...]:
    """Keys and values, a key in 16 bits for each group of tokens, and the group that is not full with its places.

    vLLM 0.33.0, `models/qwen4_exp/common/qsa_cache.py`, QSACompressedKeyCache and QSAKeyStateCache.
    """
    if not layers:
        return ()
    heads = shape.heads
    if index is None:
        return (CacheLayers(blocks.cache(heads, None), layers, heads.query),)
    picking, pool = index
    spec = FullCache(heads.kv, heads.key_width, heads.value_width, picking.picked_tokens)
    tail = RecurrentCache(Mixer.COMPRESSOR, 1, pool, picking.width + _POSITION_ELEMENTS, 0, 0)
    return (
        CacheLayers(spec, layers, heads.query),
        *latent_blocks.index_caches(picking, layers, tokens_per_row=pool, element_bytes=_HALF_BYTES),
        CacheLayers(tail, layers, 0),
    )


def _states(
    fields: Fields, shape: Decoder, mixer: GatedDelta, mixing: tuple[int, ...], looking: tuple[int, ...]
) -> tuple[CacheLayers, ...]:
    """States of linear attention, and the inputs of convolutions behind tables, whole on every rank."""
    columns = (fields.integer("ple_conv_kernel_size") - 1) * fields.integer("ngram_size", least=2)
    inputs = RecurrentCache(Mixer.SHORT_CONVOLUTION, 1, 0, 0, columns, _joined(fields, shape))
    made = (CacheLayers(mixer.cache(state_bytes(fields)), mixing, 0), CacheLayers(inputs, looking, 0))
    return tuple(entry for entry in made if entry.layers)
