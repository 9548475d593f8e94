"""Weight modules that families share; each function gives the modules of a set of layers (accounting section 6)."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from sys import intern
from typing import NamedTuple

from service.domain.architecture import CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.base import CacheSpec
from service.domain.cache.full import FullCache
from service.domain.cache.sliding import SlidingCache


class Heads(NamedTuple):
    """Attention shape: query heads, KV heads, elements of a key and of a value."""

    query: int
    kv: int
    key_width: int
    value_width: int


@lru_cache(maxsize=128)
def all_layers(count: int) -> tuple[int, ...]:
    """Every layer's index, one object for all modules and models of so many layers."""
    return tuple(range(count))


def matrix(  # noqa: PLR0913, PLR0917  # a module is its name, kind, shape, layers and how it divides
    name: str,
    kind: ModuleKind,
    rows: int,
    columns: int,
    layers: tuple[int, ...],
    shard: Shard,
    heads: int = 0,
) -> Module:
    """A [rows, columns] matrix in each of the layers."""
    return Module(name, kind, rows, columns, layers, shard=shard, heads=heads)


def vector(
    name: str, size: int, layers: tuple[int, ...], kind: ModuleKind = ModuleKind.NORM, per_layer: int = 1
) -> Module:
    """A vector of that size in each layer, whole on every rank."""
    return Module(name, kind, size, 1, layers, per_layer, per_layer)


def attention(
    hidden: int, heads: Heads, layers: tuple[int, ...], kind: ModuleKind = ModuleKind.ATTENTION
) -> list[Module]:
    """Query, key, value and output projections."""
    q, k, v = heads.query * heads.key_width, heads.kv * heads.key_width, heads.kv * heads.value_width
    return [
        matrix("q_proj", kind, q, hidden, layers, Shard.ROWS, heads.query),
        matrix("k_proj", kind, k, hidden, layers, Shard.KV_ROWS, heads.kv),
        matrix("v_proj", kind, v, hidden, layers, Shard.KV_ROWS, heads.kv),
        matrix("o_proj", kind, hidden, heads.query * heads.value_width, layers, Shard.COLUMNS, heads.query),
    ]


def attention_biases(heads: Heads, layers: tuple[int, ...]) -> list[Module]:
    """Biases of query, key and value."""
    bias = ModuleKind.BIAS
    return [
        matrix("q_proj.bias", bias, heads.query * heads.key_width, 1, layers, Shard.ROWS, heads.query),
        matrix("k_proj.bias", bias, heads.kv * heads.key_width, 1, layers, Shard.KV_ROWS, heads.kv),
        matrix("v_proj.bias", bias, heads.kv * heads.value_width, 1, layers, Shard.KV_ROWS, heads.kv),
    ]


def head_norms(heads: Heads, layers: tuple[int, ...], *, biased: bool = False) -> list[Module]:
    """A norm over the width of one head for queries and one for keys, shared by all heads of a layer."""
    count, norm = (2 if biased else 1), ModuleKind.NORM
    return [vector(name, heads.key_width, layers, norm, count) for name in ("q_norm", "k_norm")]


def wide_norms(heads: Heads, layers: tuple[int, ...]) -> list[Module]:
    """Norms over all heads' queries and all heads' keys at once."""
    norm = ModuleKind.NORM
    return [
        matrix("q_norm", norm, heads.query * heads.key_width, 1, layers, Shard.ROWS, heads.query),
        matrix("k_norm", norm, heads.kv * heads.key_width, 1, layers, Shard.KV_ROWS, heads.kv),
    ]


def gated_mlp(
    hidden: int, width: int, layers: tuple[int, ...], kind: ModuleKind = ModuleKind.MLP, *, biased: bool = False
) -> list[Module]:
    """Gate, up and down projections."""
    bias = ModuleKind.BIAS
    modules = [
        matrix("gate_proj", kind, width, hidden, layers, Shard.ROWS),
        matrix("up_proj", kind, width, hidden, layers, Shard.ROWS),
        matrix("down_proj", kind, hidden, width, layers, Shard.COLUMNS),
    ]
    if biased:
        modules.append(matrix("gate_proj.bias", bias, width, 1, layers, Shard.ROWS))
        modules.append(matrix("up_proj.bias", bias, width, 1, layers, Shard.ROWS))
        modules.append(vector("down_proj.bias", hidden, layers, bias))
    return modules


def plain_mlp(
    hidden: int, width: int, layers: tuple[int, ...], kind: ModuleKind = ModuleKind.MLP, *, biased: bool
) -> list[Module]:
    """Up and down projections, with biases where the family has them."""
    modules = [
        matrix("up_proj", kind, width, hidden, layers, Shard.ROWS),
        matrix("down_proj", kind, hidden, width, layers, Shard.COLUMNS),
    ]
    if biased:
        modules.append(matrix("up_proj.bias", ModuleKind.BIAS, width, 1, layers, Shard.ROWS))
        modules.append(vector("down_proj.bias", hidden, layers, ModuleKind.BIAS))
    return modules


def routed(modules: Iterable[Module], count: int, active: int) -> list[Module]:
    """One expert's modules as `count` of them, of which a token visits `active`."""
    return [Module(f"experts.{m.name}", m.kind, m.rows, m.columns, m.layers, count, active, m.shard) for m in modules]


def router(hidden: int, count: int, layers: tuple[int, ...], *, biased: bool = False) -> list[Module]:
    """The matrix that chooses experts; `biased` where the model code keeps a bias of it as a parameter."""
    matrices = [matrix("router", ModuleKind.ROUTER, count, hidden, layers, Shard.REPLICATED)]
    return [*matrices, vector("router.bias", count, layers, ModuleKind.BIAS)] if biased else matrices


def shared_experts(hidden: int, width: int, layers: tuple[int, ...], *, biased: bool = False) -> list[Module]:
    """Experts that every token visits, as one gated MLP of their joint width."""
    shared = gated_mlp(hidden, width, layers, ModuleKind.SHARED_EXPERT, biased=biased)
    return [
        Module(intern(f"shared_expert.{m.name}"), m.kind, m.rows, m.columns, m.layers, shard=m.shard) for m in shared
    ]


def prediction(modules: Iterable[Module]) -> list[Module]:
    """Modules of multi-token-prediction layers, which count apart from the model and stand on its last stage.

    A module of n layers becomes n of them; the layers' indices, which are behind the model's own, are dropped.
    """
    kind, last = ModuleKind.PREDICTION, Place.LAST
    return [
        Module(intern(f"mtp.{m.name}"), kind, m.rows, m.columns, (), m.count, m.active_count, m.shard, last, m.heads)
        for m in modules
    ]


def embedding(vocabulary: int, hidden: int, *, tied: bool) -> list[Module]:
    """The token table, and the output head where it is a matrix of its own."""
    place = Place.BOTH_ENDS if tied else Place.FIRST
    table = Module("embed_tokens", ModuleKind.EMBEDDING, vocabulary, hidden, shard=Shard.ROWS, place=place)
    head = Module("lm_head", ModuleKind.HEAD, vocabulary, hidden, shard=Shard.ROWS, place=Place.LAST)
    return [table] if tied else [table, head]


def positions(count: int, hidden: int) -> Module:
    """A learnt table of positions, on the first stage."""
    return Module("embed_positions", ModuleKind.POSITION, count, hidden, place=Place.FIRST)


def edge_vector(name: str, size: int, place: Place, kind: ModuleKind = ModuleKind.NORM, count: int = 1) -> Module:
    """Vectors outside the layers: a norm behind the embedding, a bias of the head."""
    return Module(name, kind, size, 1, (), count, count, place=place)


def final_norm(hidden: int, per_model: int = 1) -> Module:
    """The norm before the head."""
    return edge_vector("norm", hidden, Place.LAST, count=per_model)


def caches(heads: Heads, windows: tuple[int | None, ...]) -> tuple[CacheLayers, ...]:
    """Cache layers by window, one entry for each layer of the model; None is full attention."""
    kinds = dict.fromkeys(windows)
    if len(kinds) == 1:
        return (CacheLayers(cache(heads, windows[0]), all_layers(len(windows)), heads.query),)
    groups = [(kind, tuple(i for i, window in enumerate(windows) if window == kind)) for kind in kinds]
    return tuple(CacheLayers(cache(heads, kind), layers, heads.query) for kind, layers in groups)


def cache(heads: Heads, window: int | None) -> CacheSpec:
    """Keys and values of every token, or of the last `window`."""
    shape = (heads.kv, heads.key_width, heads.value_width)
    return FullCache(*shape) if window is None else SlidingCache(*shape, window)
