"""The audio encoders of gemma 3n and gemma 4: two strided convolutions, then layers of attention and convolution."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.domain.architecture import ModuleKind
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import Fields

_THIRD: Mapping[str, Any] = {
    "hidden_size": 1536,
    "vocab_size": 128,
    "input_feat_size": 128,
    "conf_num_attention_heads": 8,
    "conf_num_hidden_layers": 12,
    "conf_conv_kernel_size": 5,
    "sscp_conv_channel_size": (128, 32),
    "sscp_conv_kernel_size": ((3, 3), (3, 3)),
}
_FOURTH: Mapping[str, Any] = {
    "hidden_size": 1024,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "conv_kernel_size": 5,
    "subsampling_conv_channels": (128, 32),
    "output_proj_dims": 1536,
}
_KERNEL_POINTS = 9
_STRIDE = 4
_FEATURES = 128


@dataclass(frozen=True, slots=True)
class _Layers:
    """Width of a layer and of a head, kernel of the convolution, and how many layers there are."""

    width: int
    head_width: int
    kernel: int
    count: int


def third(fields: Fields) -> tuple[Tower, int, int]:
    """gemma3n's, with its width and the rows of its own vocabulary."""
    fields = fields.defaulting(_THIRD)
    width = fields.integer("hidden_size")
    heads, kernel = fields.integer("conf_num_attention_heads"), fields.integer("conf_conv_kernel_size")
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    _subsampling(fields, tower, "sscp_conv_channel_size", fields.integer("input_feat_size"), width)
    _layers(tower, _Layers(width, _head_width(fields, width, heads), kernel, depth(fields, "conf_num_hidden_layers")))
    return tower, width, fields.integer("vocab_size")


def fourth(fields: Fields) -> tuple[Tower, int]:
    """gemma4's, with the width of what it gives."""
    fields = fields.defaulting(_FOURTH)
    width, out = fields.integer("hidden_size"), fields.integer("output_proj_dims")
    heads, kernel = fields.integer("num_attention_heads"), fields.integer("conv_kernel_size")
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    _subsampling(fields, tower, "subsampling_conv_channels", _FEATURES, width)
    _layers(tower, _Layers(width, _head_width(fields, width, heads), kernel, depth(fields, "num_hidden_layers")))
    tower.linear("output_proj", out, width)
    return tower, out


def _subsampling(fields: Fields, tower: Tower, name: str, features: int, width: int) -> None:
    """Two convolutions of three by three that halve time and features each, with a norm behind either."""
    channels = fields.integers(name, least=1)
    if len(channels) != 2:  # noqa: PLR2004  # the encoder has two convolutions
        raise fields.refuse(name, f"{name} must give the channels of two convolutions.")
    first, second = channels
    tower.matrix("conv_0", first, _KERNEL_POINTS)
    tower.vector("conv_0.norm", first)
    tower.matrix("conv_1", second, first * _KERNEL_POINTS)
    tower.vector("conv_1.norm", second)
    tower.linear("input_proj", width, second * (features // _STRIDE), bias=False)


def _head_width(fields: Fields, width: int, heads: int) -> int:
    if width % heads:
        raise fields.refuse("hidden_size", f"{width} does not divide into {heads} heads.")
    return width // heads


def _layers(tower: Tower, shape: _Layers) -> None:
    """Half an MLP, attention with relative positions, a gated convolution, and the other half."""
    width, count = shape.width, shape.count
    tower.linear("ffw.up", 4 * width, width, 2 * count, bias=False)
    tower.linear("ffw.down", width, 4 * width, 2 * count, bias=False)
    tower.linear("attention", width, width, 5 * count, bias=False)
    tower.vector("attention.per_dim_scale", shape.head_width, count)
    tower.linear("conv.start", 2 * width, width, count, bias=False)
    tower.linear("conv.end", width, width, count, bias=False)
    tower.matrix("conv.depthwise", width, shape.kernel, count)
    tower.vector("norms", width, 9 * count)
