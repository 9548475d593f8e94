"""lfm2 and lfm2_moe: short convolutions, and attention with head norms in a few listed layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, layer_kinds, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import short_convolution, short_convolution_cache
from service.domain.units import ceil_div

MODEL_TYPES = ("lfm2", "lfm2_moe")
_DENSE: Mapping[str, Any] = {
    "vocab_size": 65536,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 128000,
    "tie_word_embeddings": True,
    "conv_L_cache": 3,
    "block_multiple_of": 256,
    "block_ffn_dim_multiplier": 1.0,
    "block_auto_adjust_ff_dim": True,
}
_MOE: Mapping[str, Any] = {
    **_DENSE,
    "hidden_size": 2048,
    "intermediate_size": 7168,
    "moe_intermediate_size": 1792,
    "num_dense_layers": 2,
    "num_experts": 32,
    "num_experts_per_tok": 4,
}
_DEFAULTS = {"lfm2": _DENSE, "lfm2_moe": _MOE}
_TYING = "tie_embedding"


def read(fields: Fields) -> Architecture:
    """Either kind of layer has an MLP or, in lfm2_moe behind the first layers, experts."""
    kind = fields.text("model_type") or "lfm2"
    if fields.has(_TYING):
        tied = fields.flag(_TYING, default=True)
        fields = Fields({**fields.values, "tie_word_embeddings": tied}, fields.pointer)
    fields = fields.defaulting(_DEFAULTS[kind])
    shape = decoder(fields)
    attending, mixing = _kinds(fields, shape)
    kernel, biased = fields.integer("conv_L_cache"), fields.flag("conv_bias", default=False)
    made = [
        *frame(shape),
        *(dense.attention(shape, dense.Layer(head_norms=True), attending) if attending else ()),
        *short_convolution(shape.hidden, kernel, mixing, biased=biased),
        *(_experts(fields, shape) if kind == "lfm2_moe" else _mlp(fields, shape)),
    ]
    state = short_convolution_cache(shape.hidden, kernel)
    return architecture(fields, shape, made, mixed_caches(shape, attending, state, mixing))


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = (layer_kinds.CONVOLUTION, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    if not fields.has("full_attn_idxs"):
        return shape.all_layers, ()
    return split(shape.all_layers, set(fields.integers("full_attn_idxs", most=shape.layers - 1)).__contains__)


def _mlp(fields: Fields, shape: Decoder) -> list[Module]:
    """Two thirds of the stated width, times a factor, up to the next multiple."""
    width = fields.integer("block_ff_dim", "intermediate_size")
    if fields.flag("block_auto_adjust_ff_dim", default=True):
        width = 2 * width // 3
        if fields.get("block_ffn_dim_multiplier") is not None:
            multiple = fields.integer("block_multiple_of")
            width = multiple * ceil_div(int(fields.number("block_ffn_dim_multiplier", 1.0) * width), multiple)
    if width < 1:
        raise fields.refuse("intermediate_size", "The MLP would have no width.")
    return blocks.gated_mlp(shape.hidden, width, shape.all_layers)


def _experts(fields: Fields, shape: Decoder) -> list[Module]:
    first = fields.integer("num_dense_layers", least=0)
    plain, sparse = shape.all_layers[:first], shape.all_layers[first:]
    count, active = routing(fields, ("num_experts",), ("num_experts_per_tok",))
    experts = moe.Experts(count=count, active=active, width=fields.integer("moe_intermediate_size"))
    made = moe.modules(shape.hidden, experts, sparse)
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else made
