"""olmo_hybrid: gated delta nets, and attention with norms over all heads in every fourth layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense, layer_kinds
from service.domain.configs.base import Decoder, architecture, decoder, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.qwen3_next import gated_delta

MODEL_TYPES = ("olmo_hybrid",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 100352,
    "hidden_size": 3840,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 30,
    "max_position_embeddings": 65536,
    "linear_conv_kernel_dim": 4,
}


def read(fields: Fields) -> Architecture:
    """The mixer takes its heads from the attention where the file does not give them."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    attending, mixing = _kinds(fields, shape)
    mixer = gated_delta(_with_mixer(fields, shape))
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, wide_norms=True)
    made = [
        *frame(shape),
        *(dense.attention(shape, layer, attending) if attending else ()),
        *mixer.modules(shape.hidden, mixing),
        *blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), shape.all_layers),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, attending, mixer.cache(), mixing))


def _with_mixer(fields: Fields, shape: Decoder) -> Fields:
    """Keys are three quarters of the hidden size over the heads, values twice as wide."""
    keys = fields.optional("linear_num_key_heads") or shape.heads.query
    width = fields.optional("linear_key_head_dim") or max(1, 3 * shape.hidden // (4 * keys))
    stated = {
        "linear_num_key_heads": keys,
        "linear_num_value_heads": fields.optional("linear_num_value_heads") or shape.heads.query,
        "linear_key_head_dim": width,
        "linear_value_head_dim": fields.optional("linear_value_head_dim") or 2 * width,
    }
    return Fields({**fields.values, **stated}, fields.pointer, fields.defaults)


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    attending, mixing = split(shape.all_layers, lambda layer: layer % 4 == 3)  # noqa: PLR2004  # the last of four
    return (attending, mixing) if attending else (shape.all_layers[-1:], shape.all_layers[:-1])
