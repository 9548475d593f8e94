"""gpt_bigcode (StarCoder 1, Granite code): gpt2 whose query heads share one KV head."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, gpt2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("gpt_bigcode",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 50257,
    "n_positions": 1024,
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """`multi_query` false gives each query head a KV head of its own."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True, multi_head=True)
    if fields.flag("multi_query", default=True):
        shape = shape._replace(heads=shape.heads._replace(kv=1))
    return dense.read(
        fields, gpt2.LAYER, shape=shape, width=gpt2.width(fields, shape), extra=(gpt2.table(fields, shape),)
    )
