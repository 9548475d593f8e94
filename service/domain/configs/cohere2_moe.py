"""cohere2_moe (North Mini Code, Command A+): cohere2 with experts behind the first layers, whose windows differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, layer_windows, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("cohere2_moe",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 256000,
    "hidden_size": 8192,
    "intermediate_size": 22528,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "head_dim": 128,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": True,
    "sliding_window": 4096,
    "sliding_window_pattern": 4,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "num_shared_experts": 0,
    "prefix_dense_sliding_window_pattern": 1,
    "first_k_dense_replace": 0,
}


def read(fields: Fields) -> Architecture:
    """One norm feeds attention and MLP; the head is the table where the file is silent or has a null."""
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    shape = shape._replace(tied=shape.tied or not fields.has("tie_word_embeddings"))
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, norms=1)
    made = [*frame(shape, 1), *dense.attention(shape, layer, shape.all_layers), *_mlps(fields, shape, layer)]
    return architecture(fields, shape, made, blocks.caches(shape.heads, _windows(fields, shape)))


def _mlps(fields: Fields, shape: Decoder, layer: dense.Layer) -> list[Module]:
    sparse = moe.sparse_layers(fields, shape.layers)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    count, active = routing(fields, ("num_experts",), ("num_experts_per_tok",))
    width = fields.integer("intermediate_size")
    shared = fields.integer("num_shared_experts", least=0, most=moe.MAX_PREDICTED) * width
    wide = fields.integer("prefix_dense_intermediate_size", default=width)
    return [
        *moe.modules(shape.hidden, moe.Experts(count=count, active=active, width=width, shared=shared), sparse),
        *(dense.mlp(shape.hidden, wide, layer, plain) if plain else []),
    ]


def _windows(fields: Fields, shape: Decoder) -> tuple[int | None, ...]:
    """Where the file lists no kinds, the dense layers in front count by a pattern of their own."""
    first = fields.integer("first_k_dense_replace", least=0)
    every = fields.integer("sliding_window_pattern")
    dense_every = fields.integer("prefix_dense_sliding_window_pattern")

    def slides(layer: int) -> bool:
        return bool((layer + 1) % dense_every if layer < first else (layer - first + 1) % every)

    return layer_windows(fields, shape.layers, slides)
