"""Inkling: windows with heads of their own, short convolutions everywhere, shared experts that the router weighs.

Its text part reads pictures and sounds by folded patches and tables (inkling_towers).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs import blocks, inkling_towers, layer_kinds, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, grouped, routing
from service.domain.configs.blocks import Heads, matrix, vector
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, read_text

MODEL_TYPES = ("inkling_mm_model", "inkling_text", "inkling_model")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 201024,
    "hidden_size": 6144,
    "num_hidden_layers": 66,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "swa_num_attention_heads": 64,
    "swa_num_key_value_heads": 16,
    "swa_head_dim": 128,
    "sliding_window_size": 512,
    "d_rel": 16,
    "rel_extent": 1024,
    "max_position_embeddings": 131072,
    "conv_kernel_size": 4,
    "intermediate_size": 24576,
    "moe_intermediate_size": 3072,
    "n_routed_experts": 256,
    "num_experts_per_tok": 6,
    "n_shared_experts": 2,
}
_SLIDING = "hybrid_sliding"
_EVERY, _MOST_KERNEL = 6, 64
_MIXER, _WHOLE = ModuleKind.MIXER, Shard.REPLICATED
_READ_AS = dict.fromkeys(("inkling_model", "inkling_text"), "inkling_text")


class _Kind(NamedTuple):
    """The layers of one kind: their heads, their window, and how far back positions count for them."""

    layers: tuple[int, ...]
    heads: Heads
    window: int | None
    extent: int


def read(fields: Fields) -> Architecture:
    """Prediction layers are told beside the text's own config; a tower of which nothing is said is not there."""
    if fields.text("model_type") != "inkling_mm_model":
        return _read_text(fields)
    inner, mtp = fields.inner("text_config"), fields.inner("mtp_config")
    if inner is not None:
        told = _predicting(mtp) if mtp else {}
        values = {**fields.values, "text_config": {**told, **inner.values}}
        fields = Fields(values, fields.pointer)
    text = read_text(fields, "inkling_text", renamed=_READ_AS)
    width = text.hidden_size
    towers = {"vision_config": inkling_towers.vision, "audio_config": inkling_towers.audio}
    found = [(inner, tower) for name, tower in towers.items() if (inner := fields.inner(name)) and inner.values]
    return compose(fields, text, [module for inner, tower in found for module in tower(inner, width)])


def _predicting(mtp: Fields) -> dict[str, Any]:
    names = {"num_nextn_predict_layers": "num_mtp_layers", "local_layer_ids": "mtp_local_layer_ids"}
    return {own: mtp.values[name] for name, own in names.items() if name in mtp.values}


def _read_text(fields: Fields) -> Architecture:
    fields = _renamed(fields).defaulting(DEFAULTS)
    shape = decoder(fields)
    kinds = _kinds(fields, shape, _sliding(fields, shape), shape.all_layers)
    kernel = fields.integer("conv_kernel_size", "sconv_kernel_size", least=2, most=_MOST_KERNEL)
    made = [
        *frame(shape),
        blocks.edge_vector("embed_norm", shape.hidden, Place.FIRST),
        *(module for kind in kinds for module in _attention(fields, shape, kind, kernel)),
        *_mlps(fields, shape),
        *_predicted(fields, shape, kernel),
    ]
    caches = [each for kind in kinds for each in _caches(shape, kind, kernel)]
    return architecture(fields, shape, made, tuple(caches))


def _renamed(fields: Fields) -> Fields:
    """Released files call the experts' width `intermediate_size`, the dense layers' one by a name of its own."""
    values = dict(fields.values)
    if values.get("dense_intermediate_size") is not None:
        values["moe_intermediate_size"] = values.pop("intermediate_size", DEFAULTS["intermediate_size"])
        values["intermediate_size"] = values.pop("dense_intermediate_size")
    if values.get("max_position_embeddings") is None and values.get("model_max_length") is not None:
        values["max_position_embeddings"] = values["model_max_length"]
    return Fields(values, fields.pointer)


def _sliding(fields: Fields, shape: Decoder) -> frozenset[int]:
    words = layer_kinds.listed(fields, ("layer_types",), (layer_kinds.HYBRID, _SLIDING), shape.layers)
    if words is not None:
        return frozenset(layer_kinds.of(words, _SLIDING))
    if fields.has("local_layer_ids"):
        return frozenset(fields.integers("local_layer_ids"))
    return frozenset(layer for layer in shape.all_layers if (layer + 1) % _EVERY)


def _kinds(fields: Fields, shape: Decoder, sliding: frozenset[int], layers: tuple[int, ...]) -> list[_Kind]:
    window = fields.integer("sliding_window_size", "sliding_window")
    query, kv, width = (fields.integer(f"swa_{n}") for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    narrow = grouped(fields, query, kv, width, shape.hidden)
    found = [
        _Kind(tuple(i for i in layers if i in sliding), narrow, window, window),
        _Kind(tuple(i for i in layers if i not in sliding), shape.heads, None, fields.integer("rel_extent")),
    ]
    return [kind for kind in found if kind.layers]


def _attention(fields: Fields, shape: Decoder, kind: _Kind, kernel: int) -> list[Module]:
    """Keys, values and what either half of a layer gives pass through a convolution over the last tokens."""
    heads, layers, relative = kind.heads, kind.layers, fields.integer("d_rel")
    keys = heads.kv * heads.key_width
    made = [
        *blocks.attention(shape.hidden, heads, layers),
        matrix("r_proj", ModuleKind.ATTENTION, heads.query * relative, shape.hidden, layers, Shard.ROWS, heads.query),
        *blocks.head_norms(heads, layers),
        matrix("rel_logits_proj", ModuleKind.BIAS, relative, kind.extent, layers, _WHOLE),
    ]
    made += [matrix(f"{n}_sconv", _MIXER, keys, kernel, layers, Shard.KV_ROWS, heads.kv) for n in ("k", "v")]
    return [*made, *(matrix(f"{n}_sconv", _MIXER, shape.hidden, kernel, layers, _WHOLE) for n in ("attn", "mlp"))]


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    sparse = _sparse(fields, shape)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    made = [*_dense(fields, shape, plain), vector("global_scale", 1, shape.all_layers)]
    if not sparse:
        return made
    count, active = routing(fields, ("n_routed_experts", "num_local_experts"), ("num_experts_per_tok",))
    shared, width = fields.integer("n_shared_experts", most=moe.MAX_PREDICTED), fields.integer("moe_intermediate_size")
    experts = moe.Experts(count=count, active=active, width=width, shared=shared * width)
    routed = moe.modules(shape.hidden, experts, sparse)
    return made + [replace(m, rows=m.rows + shared) if m.kind is ModuleKind.ROUTER else m for m in routed]


def _sparse(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    words = fields.choices("mlp_layer_types", ("dense", "sparse"), shape.layers)
    if words:
        return layer_kinds.of(words, "sparse")
    return tuple(range(fields.integer("dense_mlp_idx", default=0, least=0), shape.layers))


def _dense(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    return blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), layers) if layers else []


def _predicted(fields: Fields, shape: Decoder, kernel: int) -> list[Module]:
    """Dense layers with a projection of hidden state and token; whether they slide is told apart."""
    layers = moe.predicted_layers(fields, shape)
    sliding = frozenset(shape.layers + layer for layer in fields.integers("mtp_local_layer_ids"))
    if not layers:
        return []
    joined = matrix("input_proj", ModuleKind.ATTENTION, shape.hidden, 2 * shape.hidden, layers, _WHOLE)
    attending = [
        replace(module, name=f"{'full' if kind.window is None else 'sliding'}.{module.name}")
        for kind in _kinds(fields, shape, sliding, layers)
        for module in _attention(fields, shape, kind, kernel)
    ]
    return blocks.prediction(
        [
            *attending,
            *_dense(fields, shape, layers),
            joined,
            vector("norms", shape.hidden, layers, per_layer=4),
            vector("global_scale", 1, layers),
        ]
    )


def _caches(shape: Decoder, kind: _Kind, kernel: int) -> tuple[CacheLayers, CacheLayers]:
    """Keys and values, and the last inputs of all four convolutions."""
    heads = kind.heads
    state = RecurrentCache(
        Mixer.SHORT_CONVOLUTION, heads.kv, 0, 0, kernel - 1, heads.key_width + heads.value_width, 1, 2 * shape.hidden
    )
    held = CacheLayers(blocks.cache(heads, kind.window), kind.layers, heads.query)
    return held, CacheLayers(state, kind.layers, 0)
