"""bamba: attention in a few listed layers, mamba 2 mixers in the others, a gated MLP in all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, layer_kinds
from service.domain.configs.base import Decoder, architecture, decoder, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import Mamba2

MODEL_TYPES = ("bamba",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 262144,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}


def read(fields: Fields) -> Architecture:
    """Attention stands in the layers of `attn_layer_indices`."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    attending, mixing = _kinds(fields, shape)
    mixer = mamba2(fields, fields.integer("mamba_expand") * shape.hidden)
    biased = fields.flag("attention_bias", default=False)
    made = [
        *frame(shape),
        *_attention(shape, attending, biased=biased),
        *mixer.modules(shape.hidden, mixing),
        *blocks.gated_mlp(
            shape.hidden, fields.integer("intermediate_size"), shape.all_layers,
            biased=fields.flag("mlp_bias", default=False),
        ),
    ]  # fmt: skip
    return architecture(fields, shape, made, mixed_caches(shape, attending, mixer.cache(), mixing))


def mamba2(fields: Fields, channels: int, *, norm: bool = True) -> Mamba2:
    """The mixer by the names that bamba, granite and falcon_h1 share; heads `auto` divide the channels."""
    heads = fields.integer("mamba_n_heads")
    width = fields.get("mamba_d_head")
    if width == "auto" and channels % heads:
        raise fields.refuse("mamba_n_heads", f"{channels} channels do not divide into {heads} heads.")
    mixer = Mamba2(
        heads=heads,
        head_width=channels // heads if width == "auto" else fields.integer("mamba_d_head"),
        groups=fields.integer("mamba_n_groups"),
        state=fields.integer("mamba_d_state"),
        kernel=fields.integer("mamba_d_conv"),
        conv_bias=fields.flag("mamba_conv_bias", default=True),
        bias=fields.flag("mamba_proj_bias", default=False),
        norm=norm,
    )
    if mixer.channels != channels:
        raise fields.refuse("mamba_d_head", f"{heads} heads of {mixer.head_width} do not make {channels} channels.")
    return mixer


def _attention(shape: Decoder, layers: tuple[int, ...], *, biased: bool) -> list[Module]:
    return dense.attention(shape, dense.Layer(qkv_bias=biased, out_bias=biased), layers) if layers else []


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layers_block_type", "layer_types"), known, shape.layers)
    listed = set(fields.integers("attn_layer_indices", most=shape.layers - 1))
    if words is not None and not listed:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    return split(shape.all_layers, listed.__contains__)
