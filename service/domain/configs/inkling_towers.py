"""What Inkling reads pictures and sounds by: patches folded step by step, and a table of loudness by pitch."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, combinations, pairwise
from math import ceil, log
from operator import mul
from typing import Any, NamedTuple

from service.domain.architecture import Module, ModuleKind
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import Fields

_VISION: Mapping[str, Any] = {"patch_size": 40, "temporal_patch_size": 2, "num_channels": 3, "n_layers": 4}
_AUDIO: Mapping[str, Any] = {"n_mel_bins": 80, "mel_vocab_size": 256}
_MOST_SIDE, _MOST_FRAMES, _MULTIPLE = 1024, 64, 64


class _Scale(NamedTuple):
    """A patch's frames and side as one step sees it, and the channels that it has there."""

    frames: int
    side: int
    channels: int

    @property
    def folded(self) -> int:
        """Points of a patch that have become channels."""
        return self.frames * self.side * self.side


def audio(fields: Fields, out: int) -> list[Module]:
    """A row for each loudness of each pitch, and a norm."""
    fields = fields.defaulting(_AUDIO)
    pitches, levels = fields.integer("n_mel_bins", "num_codebooks"), fields.integer("mel_vocab_size", "codebook_size")
    tower = Tower(ModuleKind.AUDIO, "audio_tower")
    tower.matrix("embed_audio_tokens", pitches * levels, out)
    tower.norm("norm", out, bias=False)
    return tower.modules


def vision(fields: Fields, out: int) -> list[Module]:
    """Projections of neighbours to one, a norm behind each but the last, and one behind all."""
    fields = fields.defaulting(_VISION)
    scales = _scales(fields)
    tower = Tower(ModuleKind.VISION, "vision_tower")
    for step, (start, end) in enumerate(pairwise(scales)):
        last = step == len(scales) - 2
        width = out if last else end.channels
        tower.linear(f"{step}.proj", width, start.channels * (end.folded // start.folded), bias=False)
        if not last:
            tower.norm(f"{step}.norm", width, bias=False)
    tower.norm("final_norm", out, bias=False)
    return tower.modules


def _scales(fields: Fields) -> tuple[_Scale, ...]:
    """Of the ladder of scales those that are nearest to equal steps of a patch's logarithm, from first to last.

    With as many steps as scales codes differ, and none was published.
    """
    ladder = _ladder(fields)
    layers = fields.integer("n_layers", "num_hidden_layers")
    if layers >= len(ladder):
        raise fields.refuse("n_layers", f"A patch that folds {len(ladder) - 1} times has no rule for {layers} steps.")
    channels = fields.integer("num_channels", "n_channels", most=_MOST_SIDE)
    whole = log(ladder[-1].folded * channels)
    costs = [[abs(whole * step / layers - log(scale.folded)) for scale in ladder] for step in range(layers + 1)]
    every = combinations(range(len(ladder)), layers + 1)
    chosen = min(every, key=lambda each: sum(row[i] for row, i in zip(costs, each, strict=True)))
    return tuple(ladder[i] for i in (0, *chosen[1:-1], len(ladder) - 1))


def _ladder(fields: Fields) -> list[_Scale]:
    """The side grows by its prime factors from the largest on, then the frames by theirs."""
    sides, frames = _grown(fields, "patch_size", _MOST_SIDE), _grown(fields, "temporal_patch_size", _MOST_FRAMES)
    channels = fields.integer("num_channels", "n_channels", most=_MOST_SIDE)
    tall = sides[-1] if sides else 1
    wide = [_Scale(1, side, _rounded(side * side * channels)) for side in sides]
    return [_Scale(1, 1, channels), *wide, *(_Scale(n, tall, _rounded(tall * tall * channels * n)) for n in frames)]


def _grown(fields: Fields, name: str, most: int) -> list[int]:
    """The products of a size's prime factors, from the largest on."""
    number, factor, found = fields.integer(name, most=most), 2, list[int]()
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return list(accumulate(reversed(found), mul))


def _rounded(channels: int) -> int:
    return _MULTIPLE * ceil(channels / _MULTIPLE)
