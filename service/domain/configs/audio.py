"""Audio encoders: Whisper's, which others took over, and what they put behind it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import Fields

_KERNEL = 3
_HALVINGS = 3
_WHISPER: Mapping[str, Any] = {
    "num_mel_bins": 128,
    "d_model": 1280,
    "encoder_layers": 32,
    "encoder_ffn_dim": 5120,
    "max_source_positions": 1500,
    "output_dim": 3584,
}


def whisper(fields: Fields, name: str = "audio_tower", kind: ModuleKind = ModuleKind.AUDIO) -> Tower:
    """Two convolutions, then layers whose keys alone have no bias, and a norm."""
    width = fields.integer("d_model", "hidden_size")
    layers = depth(fields, "encoder_layers", "num_hidden_layers")
    tower = Tower(kind, name)
    tower.linear("conv1", width, fields.integer("num_mel_bins") * _KERNEL)
    tower.linear("conv2", width, width * _KERNEL)
    tower.linear("attention.qkv", 3 * width, width, layers, bias=False)
    tower.vector("attention.qv.bias", width, 2 * layers)
    tower.linear("attention.out", width, width, layers)
    tower.mlp(width, fields.integer("encoder_ffn_dim", "intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers)
    tower.norm("layer_norm", width)
    return tower


def omni(fields: Fields) -> list[Module]:
    """qwen2_5_omni: no learnt positions, a projection to the decoder and two vectors that frame a sound."""
    fields = fields.defaulting(_WHISPER)
    tower, out = whisper(fields), fields.integer("output_dim")
    tower.linear("proj", out, fields.integer("d_model", "hidden_size"))
    tower.matrix("audio_bos_eos_token", 2, out)
    return tower.modules


def published(fields: Fields) -> Tower:
    """Whisper's own encoder by its largest model's sizes, with learnt positions."""
    fields = fields.defaulting(_WHISPER)
    tower = whisper(fields)
    tower.matrix("embed_positions", fields.integer("max_source_positions"), fields.integer("d_model", "hidden_size"))
    return tower


def convolved(fields: Fields) -> Tower:
    """qwen3_omni_moe: three convolutions that halve sound and pitches each, and a projection of two layers."""
    fields = fields.defaulting({**_WHISPER, "downsample_hidden_size": 480})
    width, channels = fields.integer("d_model", "hidden_size"), fields.integer("downsample_hidden_size")
    layers, pitches = depth(fields, "encoder_layers", "num_hidden_layers"), fields.integer("num_mel_bins")
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    tower.linear("conv2d1", channels, _KERNEL * _KERNEL)
    tower.linear("conv2d", channels, channels * _KERNEL * _KERNEL, _HALVINGS - 1)
    for _ in range(_HALVINGS):
        pitches = (pitches + 1) // 2
    tower.linear("conv_out", width, channels * pitches, bias=False)
    tower.attention(width, layers)
    tower.mlp(width, fields.integer("encoder_ffn_dim", "intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers + 1)
    tower.linear("proj1", width, width)
    tower.linear("proj2", fields.integer("output_dim"), width)
    return tower
