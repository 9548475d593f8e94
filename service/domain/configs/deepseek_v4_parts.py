"""Weights and caches of a deepseek_v4 layer: compressed attention, its indexer, and residual streams."""

from __future__ import annotations

from service.domain.architecture import CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs import blocks, latent_blocks
from service.domain.configs.base import HIDDEN, Decoder
from service.domain.configs.blocks import Heads, matrix, vector
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Indexer
from service.domain.configs.recurrent_blocks import FOUR_BYTES

_ATTENTION, _INDEX, _NORM = ModuleKind.ATTENTION, ModuleKind.INDEXER, ModuleKind.NORM
_ROWS, _WHOLE = Shard.ROWS, Shard.REPLICATED


def decoder(fields: Fields) -> Decoder:
    """Sizes of a decoder with one vector for the keys and values of all heads."""
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


def attention(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
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


def compressor(shape: Decoder, layers: tuple[int, ...], rate: int, width: int) -> list[Module]:
    """Keys and gates of the tokens that become one vector, and a learnt weight for each place among them."""
    if not layers:
        return []
    return [
        matrix("compressor.kv_proj", _ATTENTION, width, shape.hidden, layers, _WHOLE),
        matrix("compressor.gate_proj", _ATTENTION, width, shape.hidden, layers, _WHOLE),
        vector("compressor.norm", shape.heads.key_width, layers),
        matrix("compressor.position_bias", _NORM, rate, width, layers, _WHOLE),
    ]


def indexer(fields: Fields, shape: Decoder, index: Indexer, layers: tuple[int, ...], rate: int) -> list[Module]:
    """A compressor of its own for the keys, queries from the compressed query, and a weight for each head."""
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


def streams(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """Several residual streams, mixed before attention and before the MLP of each layer."""
    streams = fields.integer("hc_mult", most=64)
    mixed = streams * (streams + 2)
    return [
        Module("stream_mix", _NORM, mixed, streams * shape.hidden, layers, 2, 2),
        vector("stream_mix.base", mixed, layers, per_layer=2),
        vector("stream_mix.scale", 3, layers, per_layer=2),
    ]


def stream_head(fields: Fields, shape: Decoder) -> list[Module]:
    """What makes one stream of them before the head."""
    streams, last = fields.integer("hc_mult", most=64), Place.LAST
    return [
        Module("stream_head", _NORM, streams, streams * shape.hidden, place=last),
        blocks.edge_vector("stream_head.base", streams, last),
        blocks.edge_vector("stream_head.scale", 1, last),
    ]


def compressed(shape: Decoder, layers: tuple[int, ...], rate: int, index: Indexer | None) -> list[CacheLayers]:
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
