"""Vision encoders that several families put before their decoder, each by the model_type of its own config."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from service.domain.architecture import ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import Fields, shown

_CLIP: Mapping[str, Any] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_channels": 3,
    "image_size": 224,
    "patch_size": 32,
}
_SIGLIP: Mapping[str, Any] = {**_CLIP, "patch_size": 16}
_SIGLIP2: Mapping[str, Any] = {**_SIGLIP, "num_patches": 256}
_PIXTRAL: Mapping[str, Any] = {
    **_CLIP,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "image_size": 1024,
    "patch_size": 16,
}
_INTERNVL: Mapping[str, Any] = {
    **_CLIP,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "image_size": 448,
    "patch_size": 14,
}


def clip(fields: Fields, *, normed_behind: bool = True) -> Tower:
    """A class vector, a norm before the layers and mostly one behind them."""
    fields = fields.defaulting(_CLIP)
    tower, hidden = _plain(fields)
    tower.matrix("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.vector("class_embedding", hidden)
    tower.matrix("position_embedding", patches(fields) + 1, hidden)
    tower.norm("pre_layernorm", hidden)
    if normed_behind:
        tower.norm("post_layernorm", hidden)
    return tower


def siglip(fields: Fields) -> Tower:
    """Patches with a bias, no class vector; a pooling head is an option that decoders switch off."""
    fields = fields.defaulting(_SIGLIP)
    tower, hidden = _plain(fields)
    tower.linear("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("position_embedding", patches(fields), hidden)
    tower.norm("post_layernorm", hidden)
    if fields.flag("vision_use_head", default=True):
        _pooling_head(fields, tower, hidden)
    return tower


def siglip2(fields: Fields) -> Tower:
    """Siglip over a fixed number of patches, whatever the picture's size."""
    fields = fields.defaulting(_SIGLIP2)
    tower, hidden = _plain(fields)
    tower.linear("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("position_embedding", fields.integer("num_patches"), hidden)
    tower.norm("post_layernorm", hidden)
    if fields.flag("vision_use_head", default=True):
        _pooling_head(fields, tower, hidden)
    return tower


def pixtral(fields: Fields) -> Tower:
    """No biases, gated MLPs and rotary positions: any size of picture."""
    fields = fields.defaulting(_PIXTRAL)
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.matrix("patch_conv", hidden, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.norm("ln_pre", hidden, bias=False)
    tower.norm("layer_norms", hidden, 2 * layers, bias=False)
    tower.attention(hidden, layers, bias=False)
    tower.gated_mlp(hidden, fields.integer("intermediate_size"), layers, bias=False)
    return tower


def internvl(fields: Fields) -> Tower:
    """Learnt scales behind attention and MLP; norms of queries and keys over all heads are an option."""
    fields = fields.defaulting(_INTERNVL)
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    biased = fields.flag("attention_bias", default=fields.flag("qkv_bias", default=False))
    rms = "rms" in (fields.text("norm_type") or "")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", hidden, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.vector("class_embedding", hidden)
    if fields.flag("use_absolute_position_embeddings", default=True):
        tower.matrix("position_embedding", patches(fields) + 1, hidden)
    tower.linear("attention.qkv", 3 * hidden, hidden, layers, bias=biased)
    tower.linear("attention.out", hidden, hidden, layers)
    tower.mlp(hidden, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", hidden, 2 * layers, bias=not rms)
    tower.vector("layer_scales", hidden, 2 * layers)
    if fields.flag("use_qk_norm", default=fields.flag("qk_normalization", default=False)):
        tower.norm("qk_norms", hidden, 2 * layers, bias=False)
    if not fields.flag("use_mean_pooling", default=True):
        tower.norm("layernorm", hidden)
    if fields.flag("use_mask_token", default=False):
        tower.vector("mask_token", hidden)
    return tower


def _plain(fields: Fields) -> tuple[Tower, int]:
    """The layers that clip and siglip share: biases everywhere, two LayerNorms, a plain MLP."""
    hidden, layers = fields.integer("hidden_size"), depth(fields, "num_hidden_layers")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.attention(hidden, layers)
    tower.mlp(hidden, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", hidden, 2 * layers)
    return tower, hidden


def _pooling_head(fields: Fields, tower: Tower, hidden: int) -> None:
    width = fields.integer("intermediate_size")
    tower.vector("head.probe", hidden)
    tower.linear("head.qkv", 3 * hidden, hidden)
    tower.linear("head.out", hidden, hidden)
    tower.linear("head.up", width, hidden)
    tower.linear("head.down", hidden, width)
    tower.norm("head.norm", hidden)


TOWERS: Mapping[str, Callable[[Fields], Tower]] = {
    "clip_vision_model": clip,
    "siglip_vision_model": siglip,
    "siglip2_vision_model": siglip2,
    "pixtral": pixtral,
    "internvl_vision": internvl,
    "intern_vit_6b": internvl,
}


_WIDTHS: Mapping[str, Mapping[str, Any]] = {
    "pixtral": _PIXTRAL,
    "internvl_vision": _INTERNVL,
    "intern_vit_6b": _INTERNVL,
}


def by_type(fields: Fields, silent: str) -> Tower:
    """The encoder that a vision config's model_type names, `silent` where it names none; refuses an unknown one."""
    kind = fields.text("model_type") or silent
    tower = TOWERS.get(kind)
    if tower is None:
        known = ", ".join(TOWERS)
        raise fields.refuse("model_type", f"The vision encoder {shown(kind)} is not known; known are {known}.")
    return tower(fields)


def width(fields: Fields, silent: str = "clip_vision_model") -> int:
    """The hidden size of that encoder."""
    kind = fields.text("model_type") or silent
    return fields.integer("hidden_size", default=_WIDTHS.get(kind, _CLIP)["hidden_size"])
