"""mllama (Llama 3.2 Vision): layers of cross-attention to a picture between llama's own, and a tower of two parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.cache.cross import CrossCache
from service.domain.configs import blocks
from service.domain.configs.base import Decoder, architecture, decoder, filled, split
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import MAX_LAYERS, Fields
from service.domain.configs.wrapping import compose, read_nested

MODEL_TYPES = ("mllama",)
_CROSSING = (3, 8, 13, 18, 23, 28, 33, 38)
_TEXT: Mapping[str, Any] = {
    "vocab_size": 128256,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "cross_attention_layers": _CROSSING,
}
_VISION: Mapping[str, Any] = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_global_layers": 8,
    "num_channels": 3,
    "intermediate_size": 5120,
    "vision_output_dim": 7680,
    "image_size": 448,
    "patch_size": 14,
    "max_num_tiles": 4,
}
_SHAPES = 8
_MOST_TILES = 256
_RESERVED = 8
"""Rows of the table beyond the vocabulary, for what stands for pictures; the head has none."""


def read(fields: Fields) -> Architecture:
    """A picture's keys and values are kept once for a sequence, as many as its tiles have patches."""
    pictures = fields.inner("vision_config") or Fields({}, f"{fields.pointer}/vision_config")
    pictures = pictures.defaulting(_VISION)
    tokens = pictures.integer("max_num_tiles", most=_MOST_TILES) * (patches(pictures) + 1)
    text = read_nested(fields, lambda inner: _text(inner.defaulting(_TEXT), tokens))
    return compose(fields, text, _encoder(pictures, text.hidden_size))


def _text(fields: Fields, picture_tokens: int) -> Architecture:
    shape = filled(fields, decoder(fields))._replace(tied=False)
    crossing, attending = _kinds(fields, shape)
    heads = shape.heads
    picture = CrossCache(heads.kv, heads.key_width, heads.value_width, picture_tokens)
    caches = (
        CacheLayers(blocks.cache(heads, None), attending, heads.query),
        CacheLayers(picture, crossing, heads.query),
    )
    made = [*_frame(shape), *_layers(fields, shape, crossing, attending)]
    return architecture(fields, shape, made, tuple(entry for entry in caches if entry.layers))


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers that look at the picture, the class's own for a null too, and the others."""
    silent = fields.get("cross_attention_layers") is None
    listed = set(_CROSSING if silent else fields.integers("cross_attention_layers", most=MAX_LAYERS))
    return split(shape.all_layers, listed.__contains__)


def _frame(shape: Decoder) -> list[Module]:
    """The head is a matrix of its own whatever the file says: it has fewer rows than the table."""
    hidden = shape.hidden
    rows = shape.vocabulary + _RESERVED
    return [
        Module("embed_tokens", ModuleKind.EMBEDDING, rows, hidden, shard=Shard.ROWS, place=Place.FIRST),
        Module("lm_head", ModuleKind.HEAD, shape.vocabulary, hidden, shard=Shard.ROWS, place=Place.LAST),
        blocks.vector("layer_norms", hidden, shape.all_layers, per_layer=2),
        blocks.final_norm(hidden),
    ]


def _layers(fields: Fields, shape: Decoder, crossing: tuple[int, ...], attending: tuple[int, ...]) -> list[Module]:
    made = blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), shape.all_layers)
    made += blocks.attention(shape.hidden, shape.heads, attending) if attending else []
    if crossing:
        made += blocks.attention(shape.hidden, shape.heads, crossing, ModuleKind.CROSS_ATTENTION)
        made += blocks.head_norms(shape.heads, crossing)
        made.append(blocks.vector("cross_gates", 1, crossing, ModuleKind.BIAS, per_layer=2))
    return made


def _encoder(fields: Fields, out: int) -> list[Module]:
    """Layers over a tile, then gated layers over all tiles; places of tiles by the shape of the picture."""
    hidden, width = fields.integer("hidden_size"), fields.integer("intermediate_size")
    whole = depth(fields, "num_hidden_layers") + depth(fields, "num_global_layers")
    tiles, points = fields.integer("max_num_tiles", most=_MOST_TILES), patches(fields) + 1
    shapes = fields.get("supported_aspect_ratios")
    known = len(shapes) if isinstance(shapes, list | tuple) and shapes else _SHAPES
    tower = Tower(ModuleKind.VISION, "vision_model")
    tower.linear("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"), bias=False)
    tower.vector("class_embedding", hidden)
    tower.matrix("positional_embedding", points, hidden)
    tower.matrix("positional_embedding.tiles", known + 1, tiles * points * hidden)
    tower.matrix("tile_embeddings", known + 1, tiles * hidden, 2)
    tower.vector("position_gates", 1, 3)
    tower.norm("edge_norms", hidden, 2)
    tower.attention(hidden, whole, bias=False)
    tower.mlp(hidden, width, whole)
    tower.norm("layer_norms", hidden, 2 * whole)
    tower.vector("layer_gates", 1, 2 * depth(fields, "num_global_layers"))
    tower.name = "projector"
    tower.linear("linear", out, fields.integer("vision_output_dim"))
    return tower.modules
