"""mamba and falcon_mamba: one mixer a layer, no attention and no MLP; a sequence takes a state and nothing more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers
from service.domain.configs.base import HIDDEN, Decoder, architecture, frame
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields
from service.domain.configs.recurrent_blocks import Mamba1
from service.domain.units import ceil_div

MODEL_TYPES = ("mamba", "falcon_mamba")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50280,
    "hidden_size": 768,
    "state_size": 16,
    "num_hidden_layers": 32,
    "expand": 2,
    "conv_kernel": 4,
    "time_step_rank": "auto",
    "tie_word_embeddings": True,
}
_HIDDEN_PER_RANK = 16


def read(fields: Fields) -> Architecture:
    """Every layer owns a state of its channels, which ranks divide as others divide heads."""
    fields = fields.defaulting(DEFAULTS)
    hidden = fields.integer(*HIDDEN)
    mixer = Mamba1(
        # Falcon Mamba's file states both, and its factor is not its width over the hidden size.
        channels=fields.optional("intermediate_size") or fields.integer("expand") * hidden,
        state=fields.integer("state_size"),
        rank=rank(fields, "time_step_rank", hidden),
        kernel=fields.integer("conv_kernel"),
        conv_bias=fields.flag("use_conv_bias", default=True),
        bias=fields.flag("use_bias", default=False),
    )
    shape = Decoder(
        layers=fields.layers(),
        hidden=hidden,
        heads=Heads(mixer.channels, mixer.channels, 1, 1),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )
    made = [*frame(shape, norms=1), *mixer.modules(hidden, shape.all_layers)]
    return architecture(fields, shape, made, (CacheLayers(mixer.cache(), shape.all_layers, 0),))


def rank(fields: Fields, name: str, hidden: int) -> int:
    """The rank of the step size, by default a sixteenth of the hidden size."""
    return ceil_div(hidden, _HIDDEN_PER_RANK) if fields.get(name) == "auto" else fields.integer(name)
