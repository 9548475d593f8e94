"""Attention and caches of a decoder whose last layers read what earlier ones keep (gemma 3n, gemma 4)."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeVar

from service.domain.architecture import CacheLayers, Module, ModuleKind
from service.domain.cache.base import CacheSpec
from service.domain.configs import blocks
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

K = TypeVar("K", bound=Hashable)


def owners(fields: Fields, kinds: tuple[Hashable, ...]) -> int:
    """How many layers own a cache; refuses a sharing layer of a kind that no owner has."""
    shared = fields.integer("num_kv_shared_layers", default=0, least=0)
    first = len(kinds) - shared
    if first < 1 or set(kinds[:first]) != set(kinds):
        detail = f"{shared} shared layers leave none of some kind among {len(kinds)} to keep what they read."
        raise fields.refuse("num_kv_shared_layers", detail)
    return first


def caches(
    kinds: tuple[K, ...], first_shared: int, specs: Mapping[K, CacheSpec], query_heads: int
) -> tuple[CacheLayers, ...]:
    """One entry for each kind; the sharing layers read the last owner's, so that one stands apart."""
    made = []
    for kind, spec in specs.items():
        own = [layer for layer, word in enumerate(kinds[:first_shared]) if word == kind]
        shared = tuple(layer for layer, word in enumerate(kinds) if word == kind and layer >= first_shared)
        if shared and own[:-1]:
            made.append(CacheLayers(spec, tuple(own[:-1]), query_heads))
            own = own[-1:]
        if own:
            made.append(CacheLayers(spec, tuple(own), query_heads, shared))
    return tuple(made)


def attention(  # noqa: PLR0913  # what the layers of one kind have
    hidden: int,
    heads: Heads,
    layers: tuple[int, ...],
    first_shared: int,
    *,
    biased: bool = False,
    keys_as_values: bool = False,
) -> list[Module]:
    """Projections with head norms; a sharing layer has neither keys nor values, and so neither their norms."""
    own, width = tuple(layer for layer in layers if layer < first_shared), heads.key_width
    q, k, v, o = blocks.attention(hidden, heads, layers)
    made = [q, o, blocks.vector("q_norm", width, layers)]
    mine = [k] if keys_as_values else [k, v]
    if biased:
        q_bias, k_bias, v_bias = blocks.attention_biases(heads, layers)
        made += [q_bias, blocks.vector("o_proj.bias", hidden, layers, ModuleKind.BIAS)]
        mine += [k_bias] if keys_as_values else [k_bias, v_bias]
    # `owners` has refused a kind of layer in which none owns its keys.
    return [*made, *(replace(m, layers=own) for m in mine), blocks.vector("k_norm", width, own)]
