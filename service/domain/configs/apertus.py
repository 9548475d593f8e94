"""apertus and apertus1p5_text: a plain MLP whose activation has two learnt numbers, and norms on each head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, ModuleKind
from service.domain.configs import blocks, dense
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("apertus", "apertus1p5_text")
_MORE_WORDS = 266752
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
    """The two numbers belong to the activation `xielu`; others have none. The later one may have a shorter head."""
    later = fields.text("model_type") == "apertus1p5_text"
    fields = fields.defaulting({**DEFAULTS, "vocab_size": _MORE_WORDS} if later else DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, gated=False, head_norms=True)
    learnt = blocks.vector("act_fn", 1, shape.all_layers, ModuleKind.BIAS, per_layer=2)
    extra = (learnt,) if fields.text("hidden_act") == "xielu" else ()
    architecture = dense.read(fields, layer, shape=shape, extra=extra)
    return _cut(fields, architecture) if later else architecture


def _cut(fields: Fields, architecture: Architecture) -> Architecture:
    """A head of the first words alone."""
    words = fields.optional("output_vocab_size")
    if words is None:
        return architecture
    if words > architecture.vocabulary_size or (architecture.tied and words < architecture.vocabulary_size):
        detail = "A head of its own alone may have fewer words than the table, and none has more."
        raise fields.refuse("output_vocab_size", detail)
    modules = [replace(m, rows=words) if m.kind is ModuleKind.HEAD else m for m in architecture.modules]
    return replace(architecture, modules=tuple(modules))
