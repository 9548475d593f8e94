"""exaone_moe (K-EXAONE): exaone4's attention, experts behind the first layers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import blocks, dense, exaone4, moe
from service.domain.configs.base import decoder, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("exaone_moe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 102400,
    "hidden_size": 4096,
    "intermediate_size": 16384,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 2048,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "first_k_dense_replace": 1,
    "moe_intermediate_size": 1024,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "num_shared_experts": 1,
}


def read(fields: Fields) -> Architecture:
    """A prediction layer has a dense MLP."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    layer = dense.Layer(head_norms=True)
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    width = fields.integer("moe_intermediate_size")
    shared = fields.integer("num_shared_experts", least=0) * width
    behind = moe.predicted_layers(fields, shape)
    mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), behind)
    return moe.read(
        fields,
        shape,
        layer,
        moe.Experts(count=count, active=active, width=width, shared=shared),
        sparse=moe.sparse_layers(fields, shape.layers),
        windows=exaone4.windows(fields, shape.layers),
        extra=moe.prediction(shape, layer, mlp, behind),
    )
