"""qwen3: qwen2 without its biases, with a norm on each head's query and key, and a head width of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, qwen2
from service.domain.configs.base import decoder
from service.domain.configs.fields import Fields

MODEL_TYPES = ("qwen3",)
DEFAULTS: Mapping[str, Any] = {**qwen2.DEFAULTS, "head_dim": 128}


def read(fields: Fields) -> Architecture:
    """The head width is stated and seldom hidden size over heads."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True)
    return dense.read(fields, layer, shape=shape, windows=qwen2.upper_windows(fields, shape.layers))
