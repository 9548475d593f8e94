"""jamba: attention in every eighth layer, mamba mixers in the others, experts in every second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module
from service.domain.cache.base import CacheSpec
from service.domain.configs import blocks, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.fields import Fields
from service.domain.configs.mamba import rank
from service.domain.configs.recurrent_blocks import Mamba1

MODEL_TYPES = ("jamba",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 65536,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 262144,
    "num_experts": 16,
    "num_experts_per_tok": 2,
    "expert_layer_period": 2,
    "expert_layer_offset": 1,
    "attn_layer_period": 8,
    "attn_layer_offset": 4,
    "mamba_d_state": 16,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
    "mamba_dt_rank": "auto",
}


def read(fields: Fields) -> Architecture:
    """Which layer is which follows from a period and an offset, for attention and for experts."""
    fields = fields.defaulting(DEFAULTS)
    # Derived from the periods in a saved file; says nothing of its own.
    fields.get("layers_block_type", "layer_types")
    shape = decoder(fields)
    attending, mixing = _spaced(fields, shape, "attn_layer")
    mixer = Mamba1(
        channels=fields.integer("mamba_expand") * shape.hidden,
        state=fields.integer("mamba_d_state"),
        rank=rank(fields, "mamba_dt_rank", shape.hidden),
        kernel=fields.integer("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
    )
    made = [
        *frame(shape),
        *blocks.attention(shape.hidden, shape.heads, attending),
        *mixer.modules(shape.hidden, mixing, norms=True),
        *_mlps(fields, shape),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, attending, mixer.cache(), mixing))


def mixed_caches(
    shape: Decoder, attending: tuple[int, ...], state: CacheSpec, mixing: tuple[int, ...]
) -> tuple[CacheLayers, ...]:
    """Keys and values in the layers with attention, a state in those with a mixer."""
    full = blocks.cache(shape.heads, None)
    made = (CacheLayers(full, attending, shape.heads.query), CacheLayers(state, mixing, 0))
    return tuple(entry for entry in made if entry.layers)


def _spaced(fields: Fields, shape: Decoder, prefix: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    period, offset = fields.integer(f"{prefix}_period"), fields.integer(f"{prefix}_offset", least=0)
    if offset >= period:
        raise fields.refuse(f"{prefix}_offset", f"{prefix}_offset {offset} must be below the period {period}.")
    return split(shape.all_layers, lambda layer: layer % period == offset)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    sparse, plain = _spaced(fields, shape, "expert_layer")
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("intermediate_size")
    if count == 1:
        sparse, plain = (), shape.all_layers
    experts = moe.Experts(count=count, active=active, width=width)
    return [*moe.modules(shape.hidden, experts, sparse), *blocks.gated_mlp(shape.hidden, width, plain)]
