"""Layers that carry a state on instead of keeping tokens: shapes, weight modules and what a sequence takes.

Element counts are those of accounting 1 (the table of recurrent layers), weights those of accounting 6. A projection
whose parts divide differently under tensor parallelism is given as its parts.
"""

from __future__ import annotations

from dataclasses import dataclass

from service.domain.architecture import Module, ModuleKind, Shard
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs.blocks import matrix, vector

_MIXER, _BIAS, _NORM = ModuleKind.MIXER, ModuleKind.BIAS, ModuleKind.NORM
_ROWS, _COLUMNS, _WHOLE = Shard.ROWS, Shard.COLUMNS, Shard.REPLICATED
FOUR_BYTES = 4


@dataclass(frozen=True, slots=True)
class Mamba1:
    """Channels, elements of a channel's state, rank of the step size, kernel of the convolution."""

    channels: int
    state: int
    rank: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False

    def modules(self, hidden: int, layers: tuple[int, ...], *, norms: bool = False) -> list[Module]:
        """The mixer's weights; `norms` over step size and both state projections, as jamba has them."""
        if not layers:
            return []
        inner, wide = self.channels, self.rank + 2 * self.state
        made = [
            matrix("in_proj", _MIXER, 2 * inner, hidden, layers, _ROWS),
            matrix("conv1d", _MIXER, inner, self.kernel, layers, _ROWS),
            matrix("x_proj", _MIXER, wide, inner, layers, _COLUMNS),
            matrix("dt_proj", _MIXER, inner, self.rank, layers, _ROWS),
            matrix("dt_proj.bias", _BIAS, inner, 1, layers, _ROWS),
            matrix("A_log", _MIXER, inner, self.state, layers, _ROWS),
            matrix("D", _BIAS, inner, 1, layers, _ROWS),
            matrix("out_proj", _MIXER, hidden, inner, layers, _COLUMNS),
        ]
        if norms:
            made.append(vector("mixer_norms", wide, layers))
        if self.conv_bias:
            made.append(matrix("conv1d.bias", _BIAS, inner, 1, layers, _ROWS))
        return made + _biases(self.bias, 2 * inner, hidden, layers)

    def cache(self) -> RecurrentCache:
        """Every channel has a state of its own, and is divided with it."""
        return RecurrentCache(Mixer.MAMBA1, self.channels, self.state, 1, self.kernel - 1, 1)


@dataclass(frozen=True, slots=True)
class Mamba2:
    """Heads and their width, groups that share the state's projections, elements of a state, kernel."""

    heads: int
    head_width: int
    groups: int
    state: int
    kernel: int
    conv_bias: bool = True
    bias: bool = False
    norm: bool = True

    @property
    def channels(self) -> int:
        """Channels of all heads."""
        return self.heads * self.head_width

    def modules(self, hidden: int, layers: tuple[int, ...]) -> list[Module]:
        """The mixer's weights."""
        if not layers:
            return []
        inner, shared, heads = self.channels, 2 * self.groups * self.state, self.heads
        made = [
            matrix("in_proj", _MIXER, 2 * inner, hidden, layers, _ROWS, heads),
            matrix("in_proj.groups", _MIXER, shared, hidden, layers, Shard.KV_ROWS, self.groups),
            matrix("in_proj.dt", _MIXER, heads, hidden, layers, _ROWS, heads),
            matrix("conv1d", _MIXER, inner, self.kernel, layers, _ROWS, heads),
            matrix("conv1d.groups", _MIXER, shared, self.kernel, layers, Shard.KV_ROWS, self.groups),
            Module("head_vectors", _BIAS, heads, 1, layers, 3, 3, _ROWS, heads=heads),
            matrix("out_proj", _MIXER, hidden, inner, layers, _COLUMNS, heads),
        ]
        if self.norm:
            made.append(matrix("mixer_norm", _NORM, inner, 1, layers, _ROWS, heads))
        if self.conv_bias:
            made.append(matrix("conv1d.bias", _BIAS, inner, 1, layers, _ROWS, heads))
            made.append(matrix("conv1d.groups.bias", _BIAS, shared, 1, layers, Shard.KV_ROWS, self.groups))
        return made + _biases(self.bias, 2 * inner + shared + heads, hidden, layers)

    def cache(self, state_bytes: int = 2) -> RecurrentCache:
        """A state of head width by state elements for each head."""
        return RecurrentCache(
            Mixer.MAMBA2, self.heads, self.state, self.head_width, self.kernel - 1, self.head_width,
            self.groups, 2 * self.state, state_bytes,
        )  # fmt: skip


def _biases(biased: bool, inner: int, hidden: int, layers: tuple[int, ...]) -> list[Module]:  # noqa: FBT001  # a field
    if not biased:
        return []
    return [
        matrix("in_proj.bias", _BIAS, inner, 1, layers, _ROWS),
        vector("out_proj.bias", hidden, layers, _BIAS),
    ]


@dataclass(frozen=True, slots=True)
class GatedDelta:
    """Key heads and value heads with their widths, and the kernel of the convolution over all three projections."""

    key_heads: int
    key_width: int
    value_heads: int
    value_width: int
    kernel: int

    def modules(self, hidden: int, layers: tuple[int, ...]) -> list[Module]:
        """Queries, keys, values and an output gate; step and decay for each value head."""
        if not layers:
            return []
        heads, values = self.value_heads, self.value_heads * self.value_width
        keys = 2 * self.key_heads * self.key_width
        return [
            matrix("in_proj_qk", _MIXER, keys, hidden, layers, _ROWS, self.key_heads),
            matrix("in_proj_vz", _MIXER, 2 * values, hidden, layers, _ROWS, heads),
            matrix("in_proj_ba", _MIXER, 2 * heads, hidden, layers, _ROWS, heads),
            matrix("conv1d", _MIXER, keys + values, self.kernel, layers, _ROWS, self.key_heads),
            Module("head_vectors", _BIAS, heads, 1, layers, 2, 2, _ROWS, heads=heads),
            vector("mixer_norm", self.value_width, layers),
            matrix("out_proj", _MIXER, hidden, values, layers, _COLUMNS, heads),
        ]

    def cache(self, state_bytes: int = 2) -> RecurrentCache:
        """A state of key width by value width for each value head."""
        return RecurrentCache(
            Mixer.GATED_DELTA, self.value_heads, self.key_width, self.value_width, self.kernel - 1, self.value_width,
            self.key_heads, 2 * self.key_width, state_bytes,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class KimiDelta:
    """Heads and their width, the kernel of each convolution; `full_gate` where the output gate has its full rank.

    `decay_size` is the length of the decay vector as the checkpoint has it, `full_decay` whether what decays has its
    full rank too.
    """

    heads: int
    width: int
    kernel: int
    decay_size: int
    full_gate: bool = False
    full_decay: bool = False

    def modules(self, hidden: int, layers: tuple[int, ...]) -> list[Module]:
        """Queries, keys and values alike, what decays, an output gate, a step for each head."""
        if not layers:
            return []
        heads, inner = self.heads, self.heads * self.width
        return [
            matrix("qkv_proj", _MIXER, 3 * inner, hidden, layers, _ROWS, heads),
            matrix("conv1d", _MIXER, 3 * inner, self.kernel, layers, _ROWS, heads),
            *self._ranked("f", hidden, layers, full=self.full_decay),
            matrix("dt_bias", _BIAS, inner, 1, layers, _ROWS, heads),
            vector("A_log", self.decay_size, layers, _BIAS),
            matrix("b_proj", _MIXER, heads, hidden, layers, _ROWS, heads),
            *self._ranked("g", hidden, layers, full=self.full_gate),
            vector("mixer_norm", self.width, layers),
            matrix("o_proj", _MIXER, hidden, inner, layers, _COLUMNS, heads),
        ]

    def _ranked(self, name: str, hidden: int, layers: tuple[int, ...], *, full: bool) -> list[Module]:
        """A projection to all heads, whole or through the width of one."""
        inner = self.heads * self.width
        if full:
            return [matrix(f"{name}_proj", _MIXER, inner, hidden, layers, _ROWS, self.heads)]
        return [
            matrix(f"{name}_a_proj", _MIXER, self.width, hidden, layers, _WHOLE),
            matrix(f"{name}_b_proj", _MIXER, inner, self.width, layers, _ROWS, self.heads),
        ]

    def cache(self) -> RecurrentCache:
        """A square state for each head, in 32 bits, and the inputs of three convolutions."""
        return RecurrentCache(
            Mixer.KIMI_DELTA, self.heads, self.width, self.width, self.kernel - 1, 3 * self.width,
            state_element_bytes=FOUR_BYTES,
        )  # fmt: skip


def lightning(hidden: int, heads: int, width: int, layers: tuple[int, ...]) -> list[Module]:
    """MiniMax's linear attention: queries, keys and values in one, an output gate and a norm over all heads."""
    if not layers:
        return []
    inner = heads * width
    return [
        matrix("qkv_proj", _MIXER, 3 * inner, hidden, layers, _ROWS, heads),
        matrix("output_gate", _MIXER, inner, hidden, layers, _ROWS, heads),
        matrix("mixer_norm", _NORM, inner, 1, layers, _ROWS, heads),
        matrix("out_proj", _MIXER, hidden, inner, layers, _COLUMNS, heads),
    ]


def lightning_cache(heads: int, width: int) -> RecurrentCache:
    """A square state for each head and no convolution."""
    return RecurrentCache(Mixer.LIGHTNING, heads, width, width, 0, 0)


def short_convolution(hidden: int, kernel: int, layers: tuple[int, ...], *, biased: bool) -> list[Module]:
    """LFM2's gated convolution over every channel of the hidden size."""
    if not layers:
        return []
    made = [
        matrix("in_proj", _MIXER, 3 * hidden, hidden, layers, _ROWS),
        matrix("conv", _MIXER, hidden, kernel, layers, _ROWS),
        matrix("out_proj", _MIXER, hidden, hidden, layers, _COLUMNS),
    ]
    if biased:
        made.append(matrix("conv.bias", _BIAS, hidden, 1, layers, _ROWS))
    return made + _biases(biased, 3 * hidden, hidden, layers)


def short_convolution_cache(hidden: int, kernel: int) -> RecurrentCache:
    """The last inputs of the convolution and nothing else."""
    return RecurrentCache(Mixer.SHORT_CONVOLUTION, hidden, 0, 0, kernel - 1, 1)
