"""llama4: attention within chunks in three layers of four, experts in all layers or every second, a vision tower."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind
from service.domain.cache.chunked import ChunkedCache
from service.domain.configs import blocks, dense, layer_kinds, moe
from service.domain.configs.base import Decoder, architecture, decoder, frame, routing, split
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("llama4", "llama4_text")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 202048,
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 131072,
    "num_experts_per_tok": 1,
    "num_local_experts": 16,
    "interleave_moe_layer_step": 1,
    "attention_chunk_size": 8192,
    "no_rope_layer_interval": 4,
}
_VISION: Mapping[str, Any] = {
    "hidden_size": 768,
    "num_hidden_layers": 34,
    "num_channels": 3,
    "intermediate_size": 5632,
    "image_size": 448,
    "patch_size": 14,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}


def read(fields: Fields) -> Architecture:
    """Read the decoder, and the encoder of a file that nests it."""
    if fields.text("model_type") == "llama4_text":
        return _text(fields)
    text = read_text(fields, "llama4_text")
    modules, notes = encoder(fields, "vision_config", lambda inner: _encoder(inner, text.hidden_size))
    return compose(fields, text, modules, *notes)


def _text(fields: Fields) -> Architecture:
    fields = fields.defaulting(_TEXT)
    shape = decoder(fields)
    biased = fields.flag("attention_bias", default=False)
    made = [
        *frame(shape),
        *dense.attention(shape, dense.Layer(qkv_bias=biased, out_bias=biased), shape.all_layers),
        *_mlps(fields, shape),
    ]
    return architecture(fields, shape, made, _caches(fields, shape))


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    """One shared expert as wide as a routed one; dense layers have a width of their own."""
    step = fields.integer("interleave_moe_layer_step")
    listed = set(fields.integers("moe_layers", most=shape.layers - 1)) if fields.has("moe_layers") else None
    sparse, plain = split(shape.all_layers, lambda i: i in listed if listed is not None else (i + 1) % step == 0)
    count, active = routing(fields, ("num_local_experts", "num_experts"), ("num_experts_per_tok",))
    width = fields.integer("intermediate_size")
    made = moe.modules(shape.hidden, moe.Experts(count=count, active=active, width=width, shared=width), sparse)
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size_mlp"), plain) if plain else made


def _caches(fields: Fields, shape: Decoder) -> tuple[CacheLayers, ...]:
    full, chunked = _kinds(fields, shape)
    heads = shape.heads
    made = [CacheLayers(blocks.cache(heads, None), full, heads.query)] if full else []
    if chunked:
        spec = ChunkedCache(heads.kv, heads.key_width, heads.value_width, fields.integer("attention_chunk_size"))
        made.append(CacheLayers(spec, chunked, heads.query))
    return tuple(made)


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers that see everything, which are those without rotary positions, and those that see a chunk."""
    known = (layer_kinds.FULL, layer_kinds.CHUNKED)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    if fields.optional("attention_chunk_size") is None:
        return shape.all_layers, ()
    every = fields.integer("no_rope_layer_interval")
    marks = fields.per_layer("no_rope_layers", shape.layers, most=1) if fields.get("no_rope_layers") else None
    return split(shape.all_layers, lambda layer: marks[layer] == 0 if marks else (layer + 1) % every == 0)


def _encoder(fields: Fields, out: int) -> list[Module]:
    """Biases everywhere but in the patches; neighbouring patches are shuffled together before two projections."""
    fields = fields.defaulting(_VISION)
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    projected = fields.integer("projector_output_dim")
    tower = Tower(ModuleKind.VISION, "vision_model")
    tower.linear("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"), bias=False)
    tower.vector("class_embedding", hidden)
    tower.matrix("positional_embedding", patches(fields) + 1, hidden)
    tower.norm("edge_norms", hidden, 2)
    tower.attention(hidden, layers)
    tower.mlp(hidden, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", hidden, 2 * layers)
    # Four shuffled patches are as wide as the MLP, which is what the model's code takes.
    tower.linear("adapter.fc1", fields.integer("projector_input_dim"), fields.integer("intermediate_size"), bias=False)
    tower.linear("adapter.fc2", projected, projected, bias=False)
    # The class's own width fits no adapter: a file cut to what matters has lost it.
    tower.linear("projector", out, fields.integer("vision_output_dim", default=projected), bias=False)
    return tower.modules
