"""gpt2: learnt positions, LayerNorms and biases everywhere, a tied head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense
from service.domain.configs.base import CONTEXT, Decoder, decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gpt2",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "tie_word_embeddings": True,
}


LAYER = dense.Layer(qkv_bias=True, out_bias=True, mlp_bias=True, gated=False, norm_bias=True)


def read(fields: Fields) -> Architecture:
    """The MLP is four times as wide as the hidden size unless `n_inner` says otherwise."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True, multi_head=True)
    return dense.read(fields, LAYER, shape=shape, width=width(fields, shape), extra=(table(fields, shape),))


def width(fields: Fields, shape: Decoder) -> int:
    """Width of the MLP."""
    return fields.integer("n_inner", default=4 * shape.hidden)


def table(fields: Fields, shape: Decoder) -> Module:
    """The table of positions."""
    return blocks.positions(fields.integer(*CONTEXT), shape.hidden)
