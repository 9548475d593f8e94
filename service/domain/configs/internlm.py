"""internlm (1 to 3): llama's layer whose biases are named by `bias`, and in the third also by `qkv_bias`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.fields import Fields

MODEL_TYPES = ("internlm", "internlm2", "internlm3")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 128512,
    "hidden_size": 4096,
    "intermediate_size": 10240,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 2,
    "max_position_embeddings": 32768,
    "head_dim": 128,
}


SECOND: Mapping[str, Any] = {
    "vocab_size": 103168,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
}
"""Also the first's, whose attention has biases unless the file says otherwise."""


def read(fields: Fields) -> Architecture:
    """`bias` covers attention in the first two, and output and MLP in the third."""
    third = fields.text("model_type") == "internlm3"
    fields = fields.defaulting(DEFAULTS if third else SECOND)
    if not third:
        biased = fields.flag("bias", default=True)
        return dense.read(fields, dense.Layer(qkv_bias=biased, out_bias=biased))
    qkv_bias = fields.flag("qkv_bias", "attention_bias", default=False)
    biased = fields.flag("bias", "mlp_bias", default=False)
    return dense.read(fields, dense.Layer(qkv_bias=qkv_bias, out_bias=biased, mlp_bias=biased))
