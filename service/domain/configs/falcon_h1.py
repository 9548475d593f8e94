"""falcon_h1: attention and a mamba 2 mixer side by side in every layer, so each keeps tokens and a state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, ModuleKind
from service.domain.configs import blocks, dense, layer_kinds
from service.domain.configs.bamba import mamba2
from service.domain.configs.base import architecture, decoder, frame
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches

MODEL_TYPES = ("falcon_h1",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128000,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 8192,
    "mamba_d_ssm": 1024,
    "mamba_n_heads": 128,
    "mamba_d_head": "auto",
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_expand": 2,
}


def read(fields: Fields) -> Architecture:
    """The mixer has channels of its own number; its norm is an option."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    known = (layer_kinds.HYBRID,)
    layer_kinds.listed(fields, ("layers_block_type", "layer_types"), known, shape.layers)
    channels = fields.optional("mamba_d_ssm") or fields.integer("mamba_expand") * shape.hidden
    mixer = mamba2(fields, channels, norm=fields.flag("mamba_rms_norm", default=False))
    biased = fields.flag("attention_bias", default=False)
    layers = shape.all_layers
    made = [
        *frame(shape),
        *dense.attention(shape, dense.Layer(qkv_bias=biased, out_bias=biased), layers),
        *replace(mixer, bias=False).modules(shape.hidden, layers),
        *blocks.gated_mlp(
            shape.hidden, fields.integer("intermediate_size"), layers, biased=fields.flag("mlp_bias", default=False)
        ),
    ]
    if mixer.bias:
        rows = 2 * channels + 2 * mixer.groups * mixer.state + mixer.heads
        made.append(blocks.vector("in_proj.bias", rows, layers, ModuleKind.BIAS))
    if fields.flag("projectors_bias", default=False):
        made.append(blocks.vector("out_proj.bias", shape.hidden, layers, ModuleKind.BIAS))
    return architecture(fields, shape, made, mixed_caches(shape, layers, mixer.cache(), layers))
