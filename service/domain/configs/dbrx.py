"""dbrx: fused attention, norms without bias, sixteen narrow experts in every layer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import Decoder, grouped, routing
from service.domain.configs.fields import Fields

MODEL_TYPES = ("dbrx",)
DEFAULTS: Mapping[str, Any] = {
    "d_model": 2048,
    "n_heads": 16,
    "n_layers": 24,
    "max_seq_len": 2048,
    "vocab_size": 32000,
}


ATTENTION: Mapping[str, Any] = {"kv_n_heads": 1}
FFN: Mapping[str, Any] = {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1}


def read(fields: Fields) -> Architecture:
    """Heads and experts stand in `attn_config` and `ffn_config`."""
    fields = fields.defaulting(DEFAULTS)
    attention = nested(fields, "attn_config", ATTENTION)
    ffn = nested(fields, "ffn_config", FFN)
    hidden, query = fields.integer("d_model", "hidden_size"), fields.integer("n_heads", "num_attention_heads")
    heads = grouped(fields, query, attention.integer("kv_n_heads"), None, hidden)
    tied = fields.flag("tie_word_embeddings", default=False)
    shape = Decoder(fields.layers("n_layers", "num_hidden_layers"), hidden, heads, fields.integer("vocab_size"), tied)
    count, active = routing(ffn, ("moe_num_experts",), ("moe_top_k",))
    experts = moe.Experts(count=count, active=active, width=ffn.integer("ffn_hidden_size"))
    return moe.read(fields, shape, dense.Layer(), experts)


def nested(fields: Fields, name: str, defaults: Mapping[str, Any]) -> Fields:
    """The fields of an inner object with its defaults, all of which hold where it is missing."""
    inner = fields.inner(name)
    return Fields({}, fields.pointer, defaults) if inner is None else inner.defaulting(defaults)
