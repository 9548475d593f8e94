"""mamba2: one mixer of many heads a layer, no attention and no MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers
from service.domain.configs.base import HIDDEN, Decoder, architecture, frame
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields
from service.domain.configs.recurrent_blocks import Mamba2

MODEL_TYPES = ("mamba2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 32768,
    "hidden_size": 4096,
    "num_heads": 128,
    "head_dim": 64,
    "state_size": 128,
    "num_hidden_layers": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "expand": 2,
}


def read(fields: Fields) -> Architecture:
    """Every layer owns a state of each of its heads."""
    fields = fields.defaulting(DEFAULTS)
    hidden = fields.integer(*HIDDEN)
    mixer = Mamba2(
        heads=fields.integer("num_heads"),
        head_width=fields.integer("head_dim"),
        groups=fields.integer("n_groups"),
        state=fields.integer("state_size"),
        kernel=fields.integer("conv_kernel"),
        conv_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias", default=False),
    )
    if mixer.channels != hidden * fields.integer("expand"):
        raise fields.refuse("num_heads", "num_heads x head_dim must be hidden_size x expand.")
    shape = Decoder(
        layers=fields.layers(),
        hidden=hidden,
        heads=Heads(mixer.heads, mixer.heads, mixer.state, mixer.head_width),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False),
    )
    made = [*frame(shape, norms=1), *mixer.modules(hidden, shape.all_layers)]
    return architecture(fields, shape, made, (CacheLayers(mixer.cache(), shape.all_layers, 0),))
