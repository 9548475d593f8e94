"""Weights of a qwen3_next layer beside its mixer: gated attention, experts or an MLP, and prediction layers."""

from __future__ import annotations

from service.domain.architecture import Module, ModuleKind, Shard
from service.domain.configs import blocks, dense, moe, prediction_blocks
from service.domain.configs.base import Decoder, routing, split
from service.domain.configs.fields import Fields

_PREDICTION_LAYERS = ("mtp_num_hidden_layers", "num_nextn_predict_layers")


def attention(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """Attention with head norms, and a gate as wide as the queries."""
    if not layers:
        return []
    biased, heads = fields.flag("attention_bias", default=False), shape.heads
    rows = heads.query * heads.key_width
    made = dense.attention(shape, dense.Layer(qkv_bias=biased, out_bias=biased, head_norms=True), layers)
    gate = blocks.matrix("q_gate", ModuleKind.ATTENTION, rows, shape.hidden, layers, Shard.ROWS, heads.query)
    made.append(gate)
    if biased:
        bias = ModuleKind.BIAS
        made.append(blocks.matrix("q_gate.bias", bias, rows, 1, layers, Shard.ROWS, heads.query))
    return made


def mlps(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    """Experts and a gated shared one, or an MLP where there are none; both may be mixed, but in 3.5's code."""
    if not fields.get("num_experts"):
        return blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), layers)
    if fields.text("model_type") != "qwen3_next":
        return moe.modules(shape.hidden, _experts(fields), layers)
    every = fields.integer("decoder_sparse_step")
    dense_layers = set(fields.integers("mlp_only_layers"))
    sparse, plain = split(layers, lambda layer: layer not in dense_layers and (layer + 1) % every == 0)
    made = moe.modules(shape.hidden, _experts(fields), sparse)
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else made


def _experts(fields: Fields) -> moe.Experts:
    count, active = routing(fields, ("num_experts", "num_local_experts"), ("num_experts_per_tok",))
    return moe.Experts(
        count=count,
        active=active,
        width=fields.integer("moe_intermediate_size"),
        shared=fields.integer("shared_expert_intermediate_size"),
        shared_gate=True,
    )


def predicted_layers(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """The indices of prediction layers, behind the model's own."""
    count = fields.integer(*_PREDICTION_LAYERS, default=0, least=0, most=moe.MAX_PREDICTED)
    return tuple(range(shape.layers, shape.layers + count))


def predicted(fields: Fields, shape: Decoder) -> list[Module]:
    """Prediction layers: attention, an MLP or experts, and their fusion; table and head are the model's."""
    layers = predicted_layers(fields, shape)
    if not layers:
        return []
    if fields.get("num_experts"):
        mlp = moe.modules(shape.hidden, _experts(fields), layers)
    else:
        mlp = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), layers)
    fusion = prediction_blocks.fusion(shape.hidden, layers)
    return blocks.prediction([*attention(fields, shape, layers), *mlp, *fusion])
