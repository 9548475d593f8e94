"""hunyuan (v1 dense, A13B): norms on each head; experts beside a shared one of the same width in the second."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture
from service.domain.configs import dense, moe
from service.domain.configs.base import MAX_EXPERTS, Decoder, decoder
from service.domain.configs.fields import MAX_SIZE, Fields

MODEL_TYPES = ("hunyuan", "hunyuan_v1_dense", "hunyuan_v1_moe")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 290943,
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "num_experts": 1,
    "moe_topk": 1,
    "num_shared_expert": 1,
}


def read(fields: Fields) -> Architecture:
    """The published files of the second list a number for each layer, the same in all of them."""
    name = fields.text("model_type")
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=fields.flag("use_qk_norm", default=True))
    if name == "hunyuan_v1_dense" or (name == "hunyuan" and not fields.has("num_experts")):
        return dense.read(fields, layer, shape=shape)
    return moe.read(fields, shape, layer, _experts(fields, shape))


def _experts(fields: Fields, shape: Decoder) -> moe.Experts:
    count, active = _equal(fields, shape, "num_experts"), _equal(fields, shape, "moe_topk")
    if active > count:
        raise fields.refuse("moe_topk", f"A token cannot visit {active} of {count} experts.")
    width = fields.integer("intermediate_size")
    if fields.has("moe_intermediate_size"):
        width = _equal(fields, shape, "moe_intermediate_size")
    shared = _equal(fields, shape, "num_shared_expert") * fields.integer("intermediate_size")
    return moe.Experts(count=count, active=active, width=width, shared=shared)


def _equal(fields: Fields, shape: Decoder, name: str) -> int:
    if not isinstance(fields.get(name), list):
        return fields.integer(name, most=MAX_EXPERTS if "experts" in name else MAX_SIZE)
    numbers = set(fields.per_layer(name, shape.layers, least=1) or ())
    if len(numbers) != 1:
        raise fields.refuse(name, f"This family has no rule for layers that differ in {name}.")
    return numbers.pop()
