"""apertus1p5: an apertus whose words stand for pieces of pictures and sounds too, made by convolutions before it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import Fields, shown
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("apertus1p5",)
_VISION: Mapping[str, Any] = {
    "codebook_size": 131072,
    "embed_dim": 256,
    "latent_channels": 256,
    "in_channels": 3,
    "base_channels": 256,
    "channel_multiplier": (1, 1, 2, 2, 4),
    "num_res_blocks": 4,
    "attn_resolutions": (16,),
    "resolution": 256,
}
_AUDIO: Mapping[str, Any] = {
    "audio_channels": 1,
    "num_filters": 32,
    "upsampling_ratios": (6, 5, 5, 4),
    "num_residual_layers": 1,
    "compress": 2,
    "kernel_size": 7,
    "last_kernel_size": 7,
    "residual_kernel_size": 3,
    "num_lstm_layers": 2,
    "hidden_size": 512,
}
_KERNEL, _GROUPS = 3, 32
_MOST_STAGES, _MOST_LAYERS, _MOST_CHANNELS = 12, 64, 1 << 16


def read(fields: Fields) -> Architecture:
    """Codes of pictures and sounds are words of the text, which has no projections of them."""
    text = read_text(fields, "apertus1p5_text", Tying())
    seen, notes = encoder(fields, "vision_config", _pictures)
    heard, more = encoder(fields, "audio_config", _sounds)
    return compose(fields, text, [*seen, *heard], *notes, *more)


def _pictures(fields: Fields) -> list[Module]:
    """Stages of convolutions that halve a picture, with attention where it is small, and a book of codes."""
    fields = fields.defaulting(_VISION)
    factors = fields.integers("channel_multiplier", least=1, most=_MOST_LAYERS)
    if not 0 < len(factors) <= _MOST_STAGES:
        raise fields.refuse("channel_multiplier", f"channel_multiplier must list 1 to {_MOST_STAGES} stages.")
    base = fields.integer("base_channels", most=_MOST_CHANNELS)
    widths = [base, *(base * factor for factor in factors)]
    if any(width % _GROUPS for width in widths):
        raise fields.refuse("base_channels", f"Norms need channels by {_GROUPS}.")
    tower = Tower(ModuleKind.VISION, "vision_tokenizer")
    tower.linear("conv_in", base, fields.integer("in_channels") * _KERNEL**2)
    _stages(fields, tower, widths)
    last, latent = widths[-1], fields.integer("latent_channels")
    tower.name = "vision_tokenizer.end"
    _residual(tower, last, last, 2)
    _attention(tower, last, 1)
    tower.norm("norm_out", last)
    tower.linear("conv_out", latent, last * _KERNEL**2)
    tower.linear("quant_conv", fields.integer("embed_dim"), latent)
    tower.matrix("codes", fields.integer("codebook_size"), fields.integer("embed_dim"))
    return tower.modules


def _stages(fields: Fields, tower: Tower, widths: list[int]) -> None:
    small = fields.integers("attn_resolutions", least=1)
    size, blocks = fields.integer("resolution"), fields.integer("num_res_blocks", most=_MOST_LAYERS)
    for stage, (taken, given) in enumerate(pairwise(widths)):
        tower.name = f"vision_tokenizer.{stage}"
        _residual(tower, given, taken, 1)
        tower.name = f"vision_tokenizer.{stage}.more"
        _residual(tower, given, given, blocks - 1)
        if size // 2**stage in small:
            _attention(tower, given, blocks)
        if stage < len(widths) - 2:
            tower.linear("downsample", given, given * _KERNEL**2)


def _residual(tower: Tower, out: int, taken: int, count: int) -> None:
    tower.norm("norm1", taken, count)
    tower.linear("conv1", out, taken * _KERNEL**2, count)
    tower.norm("norm2", out, count)
    tower.linear("conv2", out, out * _KERNEL**2, count)
    if taken != out:
        tower.linear("shortcut", out, taken, count)


def _attention(tower: Tower, width: int, count: int) -> None:
    tower.norm("attention.norm", width, count)
    tower.attention(width, count)


def _sounds(fields: Fields) -> list[Module]:
    """Convolutions that take every few samples for one, each with a length of its own, and an LSTM."""
    fields = fields.defaulting(_AUDIO)
    kind = fields.text("norm_type") or "weight_norm"
    if kind != "weight_norm":
        raise fields.refuse("norm_type", f"Only convolutions by weight_norm are known, not {shown(kind)}.")
    ratios = fields.integers("upsampling_ratios", least=1, most=_MOST_LAYERS)
    if len(ratios) > _MOST_STAGES:
        raise fields.refuse("upsampling_ratios", f"upsampling_ratios must list at most {_MOST_STAGES} stages.")
    width = fields.integer("num_filters", most=_MOST_CHANNELS)
    tower = Tower(ModuleKind.AUDIO, "audio_tokenizer")
    _convolution(tower, "conv_in", width, fields.integer("audio_channels"), fields.integer("kernel_size"))
    for stage, ratio in enumerate(reversed(ratios)):
        tower.name = f"audio_tokenizer.{stage}"
        _residual_sounds(fields, tower, width)
        _convolution(tower, "downsample", 2 * width, width, 2 * ratio)
        width *= 2
    tower.name = "audio_tokenizer.end"
    layers = fields.integer("num_lstm_layers", most=_MOST_LAYERS)
    tower.matrix("lstm", 8 * width, width, layers)
    tower.vector("lstm.bias", 8 * width, layers)
    _convolution(tower, "conv_out", fields.integer("hidden_size"), width, fields.integer("last_kernel_size"))
    return tower.modules


def _residual_sounds(fields: Fields, tower: Tower, width: int) -> None:
    count = fields.integer("num_residual_layers", least=0, most=_MOST_LAYERS)
    inner = width // fields.integer("compress")
    if not inner:
        raise fields.refuse("compress", f"{width} channels cannot be compressed as far.")
    _convolution(tower, "conv1", inner, width, fields.integer("residual_kernel_size"), count)
    _convolution(tower, "conv2", width, inner, 1, count)
    if fields.flag("use_conv_shortcut", default=True):
        _convolution(tower, "shortcut", width, width, 1, count)


def _convolution(  # noqa: PLR0913, PLR0917  # a module is its name, shape and how often it is there
    tower: Tower, name: str, out: int, taken: int, kernel: int, count: int = 1
) -> None:
    tower.linear(name, out, taken * kernel, count)
    tower.vector(f"{name}.length", out, count)
