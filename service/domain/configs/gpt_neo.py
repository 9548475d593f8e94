"""gpt_neo: gpt2 with a bias on the output projection alone; its local layers look back 256 tokens and keep all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, gpt2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gpt_neo",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50257,
    "max_position_embeddings": 2048,
    "hidden_size": 2048,
    "num_layers": 24,
    "num_heads": 16,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """Local attention is a mask in the model code, not a shorter cache: every layer keeps every token."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True, multi_head=True)
    layer = dense.Layer(out_bias=True, mlp_bias=True, gated=False, norm_bias=True)
    width = fields.integer("intermediate_size", default=4 * shape.hidden)
    return dense.read(fields, layer, shape=shape, width=width, extra=(gpt2.table(fields, shape),))
