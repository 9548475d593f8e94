"""deepseek_v41: a short window in every layer, and vectors that a few layers compress for those behind them.

Some layers look tables of hashed n-grams up; drafts have experts of their own; an encoder sees pictures.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.configs import blocks, latent_blocks, moe
from service.domain.configs import deepseek_v4_parts as parts
from service.domain.configs.base import Decoder, architecture, frame, routing
from service.domain.configs.blocks import matrix, vector
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Indexer
from service.domain.configs.latent_decoders import experts
from service.domain.configs.recurrent_blocks import FOUR_BYTES
from service.domain.configs.wrapping import compose, encoder, read_nested

MODEL_TYPES = ("deepseek_v41",)
# Those of the one release, as deepseek_v4's class has its own.
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 5120,
    "moe_intermediate_size": 2304,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "head_dim": 512,
    "q_lora_rank": 1280,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "n_routed_experts": 384,
    "num_experts_per_tok": 6,
    "n_shared_experts": 1,
    "max_position_embeddings": 1048576,
    "sliding_window": 128,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 512,
    "hc_mult": 4,
}
_VISION: Mapping[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 0,
    "intermediate_size": 2816,
    "patch_size": 14,
    "downsample_ratio": 3,
}
_RATIOS = (0, 1, 2)
_ATTENTION, _INDEX, _WHOLE = ModuleKind.ATTENTION, ModuleKind.INDEXER, Shard.REPLICATED
_MOST_TABLES, _MOST_HEADS = 16, 64
_FRAMES = 3


class _Sources(NamedTuple):
    """By the layers that compress: those that read them, and how many tokens become one vector."""

    readers: tuple[int, ...]
    pickers: tuple[int, ...]
    ratio: int


def read(fields: Fields) -> Architecture:
    """The decoder's fields stand inside the released file, or flat in it."""
    text = read_nested(fields, _read_text)
    modules, notes = encoder(fields, "vision_config", lambda inner: _encoder(inner, text.hidden_size))
    return compose(fields, text, modules, *notes)


def _read_text(fields: Fields) -> Architecture:
    fields = fields.defaulting(DEFAULTS)
    shape = parts.decoder(fields)
    sources = _sources(fields, shape)
    index = latent_blocks.indexer(fields)
    made = [
        *frame(shape),
        *parts.attention(fields, shape, shape.all_layers),
        *_compressors(shape, sources, index),
        *_indexers(fields, shape, sources, index),
        *moe.modules(shape.hidden, experts(fields), shape.all_layers),
        *parts.streams(fields, shape, shape.all_layers),
        *_tables(fields, shape),
        *_drafting(fields, shape),
    ]
    window = SlidingCache(1, shape.heads.key_width, 0, fields.integer("sliding_window"))
    caches = [CacheLayers(window, shape.all_layers, shape.heads.query)]
    caches += [each for source, kept in sources.items() for each in _kept(shape, source, kept, index)]
    return architecture(fields, shape, made, tuple(caches))


def _sources(fields: Fields, shape: Decoder) -> dict[int, _Sources]:
    """A compressed layer reads the last source that is not behind it, with the picks of the last that picks."""
    ratios = fields.per_layer("compress_ratios", shape.layers) or (0,) * shape.layers
    if unknown := set(ratios) - set(_RATIOS):
        raise fields.refuse("compress_ratios", f"compress_ratios has {min(unknown)}; known are 0, 1 and 2.")
    owners, pickers = (
        sorted(set(fields.integers(name, most=shape.layers - 1)))
        for name in ("kv_source_layer_ids", "index_source_layer_ids")
    )
    if not set(owners) <= set(pickers) or not all(ratios[layer] for layer in pickers):
        raise fields.refuse(
            "index_source_layer_ids", "Each layer that compresses must pick, and only those compressed."
        )
    reading: dict[int, list[int]] = {owner: [] for owner in owners}
    for layer in (layer for layer, ratio in enumerate(ratios) if ratio):
        owner = max((owner for owner in owners if owner <= layer), default=None)
        if owner is None or ratios[owner] != ratios[layer]:
            raise fields.refuse("kv_source_layer_ids", f"Layer {layer} has no source that compresses as it reads.")
        reading[owner].append(layer)
    return {
        owner: _Sources(tuple(readers[1:]), tuple(i for i in pickers if i in readers[1:]), ratios[owner])
        for owner, readers in reading.items()
    }


def _compressors(shape: Decoder, sources: Mapping[int, _Sources], index: Indexer) -> list[Module]:
    """A projection, a gate where several tokens become one, and a key of the indexer from what came of them."""
    layers, width = tuple(sources), shape.heads.key_width
    gated = tuple(layer for layer, kept in sources.items() if kept.ratio > 1)
    if not layers:
        return []
    made = [
        matrix("compressor.kv_proj", _ATTENTION, width, shape.hidden, layers, _WHOLE),
        vector("compressor.norm", width, layers),
        matrix("indexer.k_proj", _INDEX, index.width, width, layers, _WHOLE),
        vector("indexer.k_norm", index.width, layers),
    ]
    return [*made, matrix("compressor.gate_proj", _ATTENTION, width, shape.hidden, gated, _WHOLE)] if gated else made


def _indexers(fields: Fields, shape: Decoder, sources: Mapping[int, _Sources], index: Indexer) -> list[Module]:
    layers = tuple(sorted({*sources, *(layer for kept in sources.values() for layer in kept.pickers)}))
    if not layers:
        return []
    rank = fields.integer("q_lora_rank")
    return [
        matrix("indexer.q_b_proj", _INDEX, index.heads * index.width, rank, layers, _WHOLE),
        matrix("indexer.weights_proj", _INDEX, index.heads, shape.hidden, layers, _WHOLE),
    ]


def _tables(fields: Fields, shape: Decoder) -> list[Module]:
    """Rows by the hash of the last tokens, and what makes a key for each stream and one value of them.

    They count as tables of positions: gathered as such, and in another format than the table of words.
    """
    layers = fields.integers("engram_layer_ids", most=shape.layers - 1)
    rows = fields.integers("engram_num_embeddings", least=1)
    if len(rows) != len(layers) or len(set(layers)) != len(layers) or len(layers) > _MOST_TABLES:
        detail = f"engram_num_embeddings must say the rows of each of at most {_MOST_TABLES} layers."
        raise fields.refuse("engram_num_embeddings", detail)
    if not layers:
        return []
    width = fields.integer("engram_head_dim")
    heads = (fields.integer("engram_max_ngram_size", least=2, most=_MOST_HEADS) - 1) * fields.integer("engram_n_heads")
    streams, owners = fields.integer("hc_mult", most=64), tuple(sorted(layers))
    tables = [
        matrix(f"engram.{layer}.table", ModuleKind.POSITION, count, width, (layer,), Shard.ROWS)
        for layer, count in zip(layers, rows, strict=True)
    ]
    kv = matrix("engram.kv_proj", _ATTENTION, (streams + 1) * shape.hidden, heads * width, owners, Shard.ROWS)
    return [*tables, kv, vector("engram.norms", streams * shape.hidden, owners, per_layer=2)]


def _drafting(fields: Fields, shape: Decoder) -> list[Module]:
    """Layers within the window alone, joined of several of the model's, and heads that follow what was drafted."""
    layers = moe.predicted_layers(fields, shape)
    if not layers:
        return []
    base, targets = experts(fields), len(fields.integers("dspark_target_layer_ids", most=shape.layers))
    count, active = routing(fields, ("dspark_n_routed_experts",), ("dspark_num_experts_per_tok",))
    own = moe.Experts(count=count, active=active, width=base.width, shared=base.shared)
    rank, hidden = fields.integer("dspark_markov_rank"), shape.hidden
    made = [
        *parts.attention(fields, shape, layers),
        *moe.modules(hidden, own, layers),
        *parts.streams(fields, shape, layers),
        vector("layer_norms", hidden, layers, per_layer=2),
    ]
    first = layers[:1]
    made += [
        matrix("main_proj", _ATTENTION, hidden, max(1, targets) * hidden, first, _WHOLE),
        vector("norms", hidden, first, per_layer=2),
        matrix("markov_table", _ATTENTION, shape.vocabulary, rank, first, Shard.ROWS),
        matrix("markov_head", _ATTENTION, shape.vocabulary, rank, first, Shard.ROWS),
        vector("confidence_head", hidden + rank, first),
    ]
    return blocks.prediction(made)


def _kept(shape: Decoder, layer: int, kept: _Sources, index: Indexer) -> list[CacheLayers]:
    """A vector and an index key for `ratio` tokens, and the inputs of a group that is still open."""
    width, owner = shape.heads.key_width, (layer,)
    vectors = LatentCache(width, width, kept.ratio, kept.ratio * index.picked_tokens)
    made = [CacheLayers(vectors, owner, shape.heads.query, kept.readers)]
    made += latent_blocks.index_caches(index, owner, kept.pickers, kept.ratio)
    if kept.ratio > 1:
        state = RecurrentCache(Mixer.COMPRESSOR, 1, kept.ratio, 2 * width, 0, 0, state_element_bytes=FOUR_BYTES)
        made.append(CacheLayers(state, owner, 0))
    return made


def _encoder(fields: Fields, out: int) -> list[Module]:
    """Gated layers without learnt positions, a square of patches joined by an MLP, and three words of a picture."""
    fields = fields.defaulting(_VISION)
    layers, width = depth(fields, "num_hidden_layers"), fields.integer("hidden_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    if not layers:
        return []
    tower.linear("patch_embed", width, 3 * area(fields, "patch_size"))
    tower.attention(width, layers)
    tower.gated_mlp(width, fields.integer("intermediate_size"), layers, bias=False)
    tower.norm("layer_norms", width, 2 * layers + 1, bias=False)
    tower.name = "aligner"
    tower.linear("linear_1", out, width * fields.integer("downsample_ratio", most=64) ** 2)
    tower.linear("linear_2", out, out)
    tower.matrix("words", _FRAMES, out)
    return tower.modules
