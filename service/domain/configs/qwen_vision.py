"""The vision encoders of Qwen 2 to 3.5: patches over two frames, merged four by four into the decoder's size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields

_SHARED: Mapping[str, Any] = {
    "depth": 32,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
}
_SECOND: Mapping[str, Any] = {**_SHARED, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4}
_HALF: Mapping[str, Any] = {**_SHARED, "hidden_size": 3584, "intermediate_size": 3420, "out_hidden_size": 3584}
_THIRD: Mapping[str, Any] = {
    **_SHARED,
    "depth": 27,
    "patch_size": 16,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "out_hidden_size": 3584,
    "num_position_embeddings": 2304,
}
_DEEPSTACK = (8, 16, 24)
_GROUPED: Mapping[str, Any] = {"num_heads": 16, "num_key_value_heads": 8}


def second(fields: Fields) -> list[Module]:
    """qwen2_vl: LayerNorms and plain MLPs; `hidden_size` is the decoder's."""
    fields = fields.defaulting(_SECOND)
    width, layers = fields.integer("embed_dim"), depth(fields, "depth", "num_hidden_layers")
    tower = _tower(fields, width, bias=False)
    tower.norm("layer_norms", width, 2 * layers)
    tower.attention(width, layers)
    tower.mlp(width, int(fields.number("mlp_ratio", 4.0) * width), layers)
    return _merged(fields, tower, width, fields.integer("hidden_size"), norm_bias=True)


def half(fields: Fields, *, grouped: bool = False) -> list[Module]:
    """qwen2_5_vl and its omni kin: RMSNorms and gated MLPs with biases; exaone4_5 shares keys and values of heads."""
    fields = fields.defaulting({**_HALF, **_GROUPED} if grouped else _HALF)
    width, layers = fields.integer("hidden_size"), depth(fields, "depth", "num_hidden_layers")
    tower = _tower(fields, width, bias=False)
    tower.norm("layer_norms", width, 2 * layers, bias=False)
    tower.linear("attention.qkv", width + 2 * _kv_width(fields, width) if grouped else 3 * width, width, layers)
    tower.linear("attention.out", width, width, layers)
    tower.gated_mlp(width, fields.integer("intermediate_size"), layers)
    return _merged(fields, tower, width, fields.integer("out_hidden_size"), norm_bias=False)


def third(fields: Fields, *, deepstack: bool) -> list[Module]:
    """qwen3_vl and qwen3_5: learnt positions, and, in the former, mergers behind some layers too."""
    fields = fields.defaulting(_THIRD)
    width, layers = fields.integer("hidden_size"), depth(fields, "depth", "num_hidden_layers")
    out = fields.integer("out_hidden_size")
    tower = _tower(fields, width, bias=True)
    tower.matrix("pos_embed", fields.integer("num_position_embeddings"), width)
    tower.norm("layer_norms", width, 2 * layers)
    tower.attention(width, layers)
    tower.mlp(width, fields.integer("intermediate_size"), layers)
    made = _merged(fields, tower, width, out, norm_bias=True)
    if deepstack:
        stacked = fields.integers("deepstack_visual_indexes") if fields.has("deepstack_visual_indexes") else _DEEPSTACK
        if fields.values.get("deepstack_visual_indexes") == []:
            stacked = ()
        more, joined = Tower(ModuleKind.VISION, "deepstack"), width * fields.integer("spatial_merge_size") ** 2
        more.norm("norm", joined, len(stacked))
        more.linear("fc1", joined, joined, len(stacked))
        more.linear("fc2", out, joined, len(stacked))
        made += more.modules
    return made


def _kv_width(fields: Fields, width: int) -> int:
    """Of all heads' keys, in an encoder whose heads share them."""
    heads = fields.integer("num_heads")
    if width % heads:
        raise fields.refuse("num_heads", f"{width} does not divide into {heads} heads.")
    return fields.integer("num_key_value_heads", most=heads) * (width // heads)


def _tower(fields: Fields, width: int, *, bias: bool) -> Tower:
    tower = Tower(ModuleKind.VISION, "vision_tower")
    points = fields.integer("in_channels", "in_chans") * fields.integer("temporal_patch_size")
    tower.linear("patch_embed", width, points * area(fields, "patch_size"), bias=bias)
    return tower


def _merged(fields: Fields, tower: Tower, width: int, out: int, *, norm_bias: bool) -> list[Module]:
    joined = width * fields.integer("spatial_merge_size", most=64) ** 2
    tower.name = "merger"
    tower.norm("norm", width, bias=norm_bias)
    tower.linear("fc1", joined, joined)
    tower.linear("fc2", out, joined)
    return tower.modules
