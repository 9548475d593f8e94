"""gemma4 and gemma4_unified with what lets them see and hear; either encoder may be missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import conformer
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, read_text

MODEL_TYPES = ("gemma4", "gemma4_unified")
_VISION: Mapping[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 16,
    "num_attention_heads": 12,
    "num_key_value_heads": 12,
    "head_dim": 64,
    "patch_size": 16,
    "position_embedding_size": 10240,
}
_PATCHES: Mapping[str, Any] = {
    "patch_size": 16,
    "pooling_kernel_size": 3,
    "mm_embed_dim": 3840,
    "mm_posemb_size": 1120,
    "output_proj_dims": 3840,
}
_CHANNELS, _AXES = 3, 2


def read(fields: Fields) -> Architecture:
    """The unified one has no encoders: patches and frames of sound go to the decoder through a projection."""
    unified = fields.text("model_type") == "gemma4_unified"
    text = read_text(fields, "gemma4_unified_text" if unified else "gemma4_text", Tying(silent=True))
    see, hear = (_patches, _frames) if unified else (_tower, _conformer)
    pictures, sounds = fields.inner("vision_config"), fields.inner("audio_config")
    modules = see(pictures, text.hidden_size) if pictures is not None else []
    modules += hear(sounds, text.hidden_size) if sounds is not None else []
    inner = fields.inner("text_config")
    both_ways = inner is not None and inner.text("use_bidirectional_attention") == "vision"
    return replace(compose(fields, text, modules), whole_pictures=both_ways)


def _tower(fields: Fields, out: int) -> list[Module]:
    """Norms of queries and keys, four norms a layer, gated MLPs, positions on two axes; no biases, whatever is said."""
    fields = fields.defaulting(_VISION)
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    heads, width = fields.integer("num_attention_heads"), fields.integer("head_dim")
    # The class's own 12 fits no other number of heads: a file cut to what matters has lost it, and they are equal.
    kv = fields.integer("num_key_value_heads")
    kv = heads if heads % kv else kv
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedder", hidden, _CHANNELS * fields.integer("patch_size") ** 2, bias=False)
    tower.matrix("position_embedding_table", _AXES * fields.integer("position_embedding_size"), hidden)
    tower.linear("attention.q", heads * width, hidden, layers, bias=False)
    tower.linear("attention.kv", 2 * kv * width, hidden, layers, bias=False)
    tower.linear("attention.out", hidden, heads * width, layers, bias=False)
    tower.vector("attention.norms", width, 2 * layers)
    tower.gated_mlp(hidden, fields.integer("intermediate_size"), layers, bias=False)
    tower.norm("layer_norms", hidden, 4 * layers, bias=False)
    tower.linear("projection", out, hidden, bias=False)
    return tower.modules


def _conformer(fields: Fields, out: int) -> list[Module]:
    tower, width = conformer.fourth(fields)
    tower.linear("projection", out, width, bias=False)
    return tower.modules


def _patches(fields: Fields, out: int) -> list[Module]:
    fields = fields.defaulting(_PATCHES)
    side = fields.integer("patch_size") * fields.integer("pooling_kernel_size")
    points, width = _CHANNELS * side * side, fields.integer("mm_embed_dim")
    tower = Tower(ModuleKind.VISION, "embed_vision")
    tower.matrix("pos_embedding", _AXES * fields.integer("mm_posemb_size"), width)
    tower.norm("patch_norm_1", points)
    tower.linear("patch_dense", width, points)
    tower.norm("patch_norm_2", width)
    tower.norm("pos_norm", width)
    tower.linear("projection", out, fields.integer("output_proj_dims"), bias=False)
    return tower.modules


def _frames(fields: Fields, out: int) -> list[Module]:
    tower = Tower(ModuleKind.AUDIO, "embed_audio")
    tower.linear("projection", out, fields.integer("audio_embed_dim", "hidden_size", default=640), bias=False)
    return tower.modules
