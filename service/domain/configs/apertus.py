"""apertus: a plain MLP whose activation has two learnt numbers, and norms on each head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, ModuleKind
from service.domain.configs import blocks, dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("apertus",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 65536,
    "hidden_act": "xielu",
}


def read(fields: Fields) -> Architecture:
    """The two numbers belong to the activation `xielu`; others have none."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, gated=False, head_norms=True)
    learnt = blocks.vector("act_fn", 1, shape.all_layers, ModuleKind.BIAS, per_layer=2)
    extra = (learnt,) if fields.text("hidden_act") == "xielu" else ()
    return dense.read(fields, layer, shape=shape, extra=extra)
