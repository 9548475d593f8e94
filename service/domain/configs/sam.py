"""SAM's encoder of pictures: windows with places of their own, then convolutions that make few tokens of many."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import ModuleKind
from service.domain.configs.encoder_blocks import Tower, area, depth, patches, side
from service.domain.configs.fields import Fields

# The published base size, which files state in parts.
BASE: Mapping[str, Any] = {
    "width": 768,
    "layers": 12,
    "heads": 12,
    "image_size": 1024,
    "patch_size": 16,
    "num_channels": 3,
    "output_channels": 256,
    "window_size": 14,
    "global_attn_indexes": (2, 5, 8, 11),
    "downsample_channels": (512, 1024),
}
_KERNEL_POINTS = 9


def sam(fields: Fields) -> Tower:
    """Layers that look at the whole picture have longer tables of places than those that look at a window."""
    fields = fields.defaulting({**BASE, **fields.defaults})
    width, layers = fields.integer("width", "hidden_size"), depth(fields, "layers", "num_hidden_layers")
    heads = fields.integer("heads", "num_attention_heads")
    if width % heads:
        raise fields.refuse("width", f"{width} does not divide into {heads} heads.")
    tower = Tower(ModuleKind.VISION, "sam")
    tower.linear("patch_embed", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("pos_embed", patches(fields), width)
    tower.attention(width, layers)
    _places(fields, tower, width // heads, layers)
    tower.mlp(width, fields.integer("mlp_dim", default=4 * width), layers)
    tower.norm("layer_norms", width, 2 * layers)
    _neck(fields, tower, width)
    return tower


def _places(fields: Fields, tower: Tower, head_width: int, layers: int) -> None:
    """Relative places by height and by width, of both ways."""
    seeing = len({layer for layer in fields.integers("global_attn_indexes") if layer < layers})
    (high, wide), window = _grid(fields), fields.integer("window_size")
    tower.matrix("rel_pos.all", 2 * high - 1 + 2 * wide - 1, head_width, seeing)
    tower.matrix("rel_pos.window", 2 * (2 * window - 1), head_width, layers - seeing)


def _grid(fields: Fields) -> tuple[int, int]:
    (height, width), (tall, wide) = side(fields, "image_size"), side(fields, "patch_size")
    return height // tall, width // wide


def _neck(fields: Fields, tower: Tower, width: int) -> None:
    """Two convolutions with norms, then those that halve the picture."""
    out = fields.integer("output_channels")
    tower.matrix("neck.conv1", out, width)
    tower.matrix("neck.conv2", out, out * _KERNEL_POINTS)
    tower.norm("neck.norms", out, 2)
    for number, channels in enumerate(fields.integers("downsample_channels", least=1)):
        tower.matrix(f"downsample.{number}", channels, out * _KERNEL_POINTS)
        out = channels
