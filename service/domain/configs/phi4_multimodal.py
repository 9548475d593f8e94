"""phi4mm and phi4_multimodal (Phi-4-multimodal): siglip, and a conformer for sounds, before a phi3."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import vision
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import compose, encoder, read_text

MODEL_TYPES = ("phi4mm", "phi4_multimodal")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 200064,
    "hidden_size": 3072,
    "intermediate_size": 8192,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
}
_SIGLIP: Mapping[str, Any] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 448,
    "patch_size": 14,
    "vision_use_head": True,
}
# Names of the library's class, then those of the published file.
_SOUND: Mapping[str, Any] = {
    "hidden_size": 1024,
    "intermediate_size": 1536,
    "num_blocks": 24,
    "num_attention_heads": 16,
    "kernel_size": 3,
    "input_size": 80,
    "time_reduction": 8,
    "bias_max_distance": 1000,
    "nemo_conv_channels": 1024,
}
_PUBLISHED: Mapping[str, str] = {
    "attention_dim": "hidden_size",
    "linear_units": "intermediate_size",
    "attention_heads": "num_attention_heads",
}
_DISTANCE = 500
_POINTS, _MOST_REDUCED = 3 * 3, 1 << 10
_ADAPTERS = "The adapters for pictures and for sounds, which engines load as such, are not counted."


def read(fields: Fields) -> Architecture:
    """The published file states the decoder's sizes beside the encoders'."""
    published = fields.text("model_type") == "phi4mm"
    text = read_text(fields, "phi3", defaults=_TEXT, renamed=dict.fromkeys(MODEL_TYPES, "phi3"))
    hidden = text.hidden_size

    def see(inner: Fields) -> list[Module]:
        return _pictures(inner, hidden)

    def hear(inner: Fields) -> list[Module]:
        return _sounds(inner, hidden)

    if published:
        sounds = _published_sounds(fields)
        tower = _sounds(sounds, hidden)
        tower.append(_normalised(sounds))
        return compose(fields, text, [*_pictures(Fields({}), hidden), *tower], _ADAPTERS)
    seen, notes = encoder(fields, "vision_config", see)
    heard, more = encoder(fields, "audio_config", hear)
    return compose(fields, text, [*seen, *heard], *notes, *more)


def _published_sounds(fields: Fields) -> Fields:
    """The sizes of the conformer under the names of the library's class."""
    outer = fields.inner("audio_processor") or Fields({}, f"{fields.pointer}/audio_processor")
    inner = outer.inner("config") or Fields({}, f"{outer.pointer}/config")
    bias = inner.inner("relative_attention_bias_args") or Fields({}, inner.pointer)
    convolved = inner.inner("nemo_conv_settings") or Fields({}, inner.pointer)
    stated = {_PUBLISHED.get(name, name): value for name, value in inner.values.items()}
    stated["bias_max_distance"] = bias.integer("t5_bias_max_distance", default=_DISTANCE)
    stated["nemo_conv_channels"] = convolved.integer("conv_channels", default=_SOUND["nemo_conv_channels"])
    return Fields(stated, inner.pointer)


def _normalised(fields: Fields) -> Module:
    """Means and deviations of the pitches, which the published code keeps as parameters."""
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    tower.vector("pitch_norms", fields.defaulting(_SOUND).integer("input_size"), 2)
    return tower.modules[0]


def _pictures(fields: Fields, out: int) -> list[Module]:
    """Two vectors part pictures and rows of them."""
    stated = Fields({**_SIGLIP, **fields.values}, fields.pointer)
    tower, width = vision.siglip(stated), stated.integer("hidden_size")
    tower.name = "image_projector"
    tower.vector("separators", width, 2)
    tower.linear("up", out, width)
    tower.linear("down", out, out)
    return tower.modules


def _sounds(fields: Fields, out: int) -> list[Module]:
    """Three convolutions, then layers of two half MLPs around attention and convolution; two projections."""
    fields = fields.defaulting(_SOUND)
    width, layers = fields.integer("hidden_size"), depth(fields, "num_blocks")
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    _subsampling(fields, tower, width)
    tower.matrix("relative_bias", 2 * fields.integer("bias_max_distance"), fields.integer("num_attention_heads"))
    tower.attention(width, layers)
    tower.gated_mlp(width, fields.integer("intermediate_size"), 2 * layers)
    tower.norm("layer_norms", width, 5 * layers)
    tower.vector("conv.gate_biases", width, 2 * layers)
    tower.linear("conv.expand", 2 * width, width, layers)
    tower.linear("conv.depthwise", width, fields.integer("kernel_size"), layers)
    tower.linear("conv.pointwise", width, width, 2 * layers)
    tower.name = "audio_projector"
    tower.linear("up", out, width, 2)
    tower.linear("down", out, out, 2)
    return tower.modules


def _subsampling(fields: Fields, tower: Tower, width: int) -> None:
    """Each convolution halves time and pitches; what is left of the pitches is projected."""
    channels, pitches = fields.integer("nemo_conv_channels"), fields.integer("input_size")
    halvings = fields.integer("time_reduction", least=2, most=_MOST_REDUCED).bit_length() - 1
    for _ in range(halvings):
        pitches = (pitches + 1) // 2
    tower.linear("subsampling.depthwise", channels, _POINTS, halvings)
    tower.linear("subsampling.pointwise", channels, channels, halvings - 1)
    tower.linear("subsampling.out", width, channels * pitches)
