"""Multi-head latent attention and the indexer of sparse attention: shapes, weight modules and caches.

Keys and values of all heads come from one vector a token (accounting 6, "MLA per layer" and "indexer per layer").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from service.domain.architecture import CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.configs import blocks
from service.domain.configs.base import QUERY_HEADS
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

_ATTENTION, _NORM, _BIAS = ModuleKind.ATTENTION, ModuleKind.NORM, ModuleKind.BIAS


@dataclass(frozen=True, slots=True)
class Latent:
    """Query heads; ranks of the query (None: not compressed) and of the cached vector; widths of a head's parts."""

    query_heads: int
    query_rank: int | None
    rank: int
    plain_width: int
    rope_width: int
    value_width: int
    biased: bool = False

    @property
    def heads(self) -> Heads:
        """As heads that the model computes with, each with a key and value of its own."""
        return Heads(self.query_heads, self.query_heads, self.plain_width + self.rope_width, self.value_width)

    @property
    def vector_width(self) -> int:
        """Elements cached for a token."""
        return self.rank + self.rope_width


@dataclass(frozen=True, slots=True)
class Indexer:
    """Heads and width of the keys that pick tokens, and how many tokens a query reads."""

    heads: int
    width: int
    picked_tokens: int


def latent(fields: Fields, value_width: int | None = None) -> Latent:
    """Read the shape; a head size or KV-head count in such a file is a decoy (accounting 1.1).

    `value_width` is what the family's code takes where the file has no `v_head_dim`.
    """
    fields.get("head_dim", "num_key_value_heads")
    return Latent(
        query_heads=fields.integer(*QUERY_HEADS),
        query_rank=fields.optional("q_lora_rank"),
        rank=fields.integer("kv_lora_rank"),
        plain_width=fields.integer("qk_nope_head_dim", least=0),
        rope_width=fields.integer("qk_rope_head_dim", least=0),
        value_width=fields.integer("v_head_dim", default=value_width),
        biased=fields.flag("attention_bias", default=False),
    )


def indexer(fields: Fields) -> Indexer:
    """Read the indexer's shape."""
    return Indexer(fields.integer("index_n_heads"), fields.integer("index_head_dim"), fields.integer("index_topk"))


def attention(hidden: int, shape: Latent, layers: tuple[int, ...]) -> list[Module]:
    """Compressing projections and their norms stand whole on every rank, the heads' own are divided."""
    if not layers:
        return []
    heads, out = shape.query_heads, shape.query_heads * shape.value_width
    per_head = shape.plain_width + shape.value_width
    modules = [
        *_queries(hidden, shape, layers),
        blocks.matrix("kv_a_proj", _ATTENTION, shape.vector_width, hidden, layers, Shard.REPLICATED),
        blocks.vector("kv_a_norm", shape.rank, layers),
        blocks.matrix("kv_b_proj", _ATTENTION, heads * per_head, shape.rank, layers, Shard.ROWS, heads),
        blocks.matrix("o_proj", _ATTENTION, hidden, out, layers, Shard.COLUMNS, heads),
    ]
    return modules + _biases(hidden, shape, layers) if shape.biased else modules


def _queries(hidden: int, shape: Latent, layers: tuple[int, ...]) -> list[Module]:
    rows = shape.query_heads * shape.heads.key_width
    if shape.query_rank is None:
        return [blocks.matrix("q_proj", _ATTENTION, rows, hidden, layers, Shard.ROWS, shape.query_heads)]
    return [
        blocks.matrix("q_a_proj", _ATTENTION, shape.query_rank, hidden, layers, Shard.REPLICATED),
        blocks.vector("q_a_norm", shape.query_rank, layers),
        blocks.matrix("q_b_proj", _ATTENTION, rows, shape.query_rank, layers, Shard.ROWS, shape.query_heads),
    ]


def _biases(hidden: int, shape: Latent, layers: tuple[int, ...]) -> list[Module]:
    sizes: Mapping[str, int | None] = {
        "q_a_proj.bias": shape.query_rank,
        "kv_a_proj.bias": shape.vector_width,
        "o_proj.bias": hidden,
    }
    return [blocks.vector(name, size, layers, _BIAS) for name, size in sizes.items() if size]


def index_modules(hidden: int, query_rank: int, shape: Indexer, layers: tuple[int, ...]) -> list[Module]:
    """Queries from the compressed query, one key a token with a biased norm, and a weight for each head."""
    kind, whole = ModuleKind.INDEXER, Shard.REPLICATED
    return [
        blocks.matrix("indexer.q_b_proj", kind, shape.heads * shape.width, query_rank, layers, whole),
        blocks.matrix("indexer.k_proj", kind, shape.width, hidden, layers, whole),
        blocks.vector("indexer.k_norm", shape.width, layers, per_layer=2),
        blocks.matrix("indexer.weights_proj", kind, shape.heads, hidden, layers, whole),
    ]


def caches(shape: Latent, layers: tuple[int, ...], picked_tokens: int | None = None) -> tuple[CacheLayers, ...]:
    """One vector a token in each of the layers, of which a step reads those that an indexer picks."""
    expanded = shape.plain_width + shape.rope_width + shape.value_width
    spec = LatentCache(shape.vector_width, shape.rank, read_limit_tokens=picked_tokens, expanded_width=expanded)
    return (CacheLayers(spec, layers, shape.query_heads),) if layers else ()


def index_caches(
    shape: Indexer,
    owners: tuple[int, ...],
    readers: tuple[int, ...] = (),
    tokens_per_row: int = 1,
    element_bytes: int | None = None,
) -> tuple[CacheLayers, ...]:
    """The keys of the layers that own an indexer; `readers` use what an earlier layer picked and own none."""
    spec = IndexerCache(shape.width, tokens_per_row, element_bytes)
    return (CacheLayers(spec, owners, shape.heads, readers),) if owners else ()
