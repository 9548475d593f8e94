"""falcon: three layouts of attention (one KV head, groups, one for each query), and a plain MLP."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense
from service.domain.configs.base import Decoder, grouped
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

MODEL_TYPES = ("falcon", "RefinedWeb", "RefinedWebModel")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 65024,
    "hidden_size": 4544,
    "num_hidden_layers": 32,
    "num_attention_heads": 71,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """Norms are LayerNorms: two a layer in the new layout and where attention and MLP follow one another."""
    fields = fields.defaulting(DEFAULTS)
    hidden = fields.integer("hidden_size", "n_embed")
    shape = Decoder(fields.layers(), hidden, _heads(fields, hidden), fields.integer("vocab_size"), _tied(fields))
    biased = fields.flag("bias", default=False)
    layer = dense.Layer(
        qkv_bias=biased, out_bias=biased, mlp_bias=biased, gated=False, norms=_norms(fields), norm_bias=True
    )
    width = fields.integer("ffn_hidden_size", default=hidden * fields.integer("ff_factor", default=4))
    return dense.read(fields, layer, shape=shape, width=width)


def _new_layout(fields: Fields) -> bool:
    return fields.flag("new_decoder_architecture", default=False)


def _tied(fields: Fields) -> bool:
    return fields.flag("tie_word_embeddings", default=True)


def _heads(fields: Fields, hidden: int) -> Heads:
    query = fields.integer("num_attention_heads", "n_head")
    kv = fields.integer("num_kv_heads", "n_head_kv", default=query)
    if not _new_layout(fields):
        kv = 1 if fields.flag("multi_query", default=True) else query
    return grouped(fields, query, kv, None, hidden)


def _norms(fields: Fields) -> int:
    if not fields.flag("parallel_attn", default=True):
        return 2
    count = fields.integer("num_ln_in_parallel_attn", default=2 if _new_layout(fields) else 1, least=0)
    return 2 if count == 2 else 1  # noqa: PLR2004  # the model code knows two and takes all else for one
