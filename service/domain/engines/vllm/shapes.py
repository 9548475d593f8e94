"""What of a model's shapes the engine's memory follows from, on one rank, worked out once and kept with the model."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Shard
from service.domain.cache.base import heads_on_rank
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.memo import remembered
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.model import Model
    from service.domain.parallel import Layout

_HELD = frozenset(
    {ModuleKind.MLP, ModuleKind.SHARED_EXPERT, ModuleKind.MIXER, ModuleKind.ATTENTION, ModuleKind.CROSS_ATTENTION}
)
TOWERS = frozenset({ModuleKind.VISION, ModuleKind.AUDIO})
FUSED = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}
"""Matrices that the engine holds as one, each with the name of that one."""


class Widths(NamedTuple):
    """Elements a token on one rank.

    `widest` is the widest block outside the experts, inputs and outputs together; `experts_in`, `experts_out` and
    `expert_hidden` are one expert's gate and up, its inner width and its outer width, `experts_active` how many a
    token visits; `latent_heads` query heads x (key without rotation + value) of latent attention.
    """

    hidden: int
    widest: int
    experts_active: int
    experts_in: int
    experts_out: int
    expert_hidden: int
    latent_heads: int


class Tower(NamedTuple):
    """An encoder for pictures or sound: its hidden and inner width on a rank, both 0 without one."""

    hidden: int
    inner: int


def widths(architecture: Architecture, layout: Layout) -> Widths:
    """The widths of the fullest rank."""
    experts = [m for m in architecture.modules if m.kind is ModuleKind.EXPERT and m.columns > 1]
    whole = layout.expert
    tensor = 1 if whole else layout.tensor
    into = [m for m in experts if m.shard is Shard.ROWS]
    back = [m for m in experts if m.shard is Shard.COLUMNS]
    return Widths(
        hidden=architecture.hidden_size,
        widest=_widest(architecture, layout.tensor),
        experts_active=architecture.experts[1],
        experts_in=ceil_div(sum(m.rows for m in _first_layer(into)), tensor),
        experts_out=ceil_div(max((m.columns for m in back), default=0), tensor),
        expert_hidden=max((m.columns for m in into), default=0),
        latent_heads=_latent_heads(architecture, layout.tensor),
    )


def tower(architecture: Architecture) -> Tower:
    """The encoder's widths, taken from its widest matrices; encoders are small enough to be quoted whole."""
    modules = [m for m in architecture.modules if m.kind in TOWERS and m.columns > 1 and m.rows > 1]
    if not modules:
        return Tower(0, 0)
    main = max(modules, key=lambda m: (m.count, m.elements))
    alike = [m for m in modules if m.count >= main.count // 2]
    hidden = min(min(m.rows, m.columns) for m in alike)
    return Tower(hidden, max(max(m.rows, m.columns) for m in alike))


def tower_of(model: Model) -> Tower:
    """The model's encoder, remembered."""
    found: Tower = remembered(model, "vllm-tower", lambda: tower(model.architecture))
    return found


def widths_of(model: Model, layout: Layout) -> Widths:
    """The model's widths on a rank of that layout, remembered."""
    found: Widths = remembered(model, ("vllm-widths", layout), lambda: widths(model.architecture, layout))
    return found


def _first_layer(modules: list[Module]) -> list[Module]:
    """Of modules in several sets of layers, those of one layer alone."""
    first = next((m.layers[0] for m in modules if m.layers), None)
    return [m for m in modules if first in m.layers]


def _widest(architecture: Architecture, tensor: int) -> int:
    sums: dict[tuple[ModuleKind, int], int] = defaultdict(int)
    for module in architecture.modules:
        if module.kind in _HELD and module.columns > 1:
            size = _elements(module, tensor)
            for layer in module.layers:
                sums[module.kind, layer] += size
    return max(sums.values(), default=0)


def _elements(module: Module, tensor: int) -> int:
    """Elements a token of what goes into a matrix that sums over ranks, or comes out of one that does not."""
    if module.shard is Shard.COLUMNS:
        return ceil_div(module.columns, tensor)
    if module.shard is Shard.KV_ROWS:
        return module.rows // module.heads * heads_on_rank(module.heads, tensor)
    return ceil_div(module.rows, tensor) if module.shard is Shard.ROWS else module.rows


def _latent_heads(architecture: Architecture, tensor: int) -> int:
    if architecture.compressed:
        return 0
    for owners in architecture.caches:
        if isinstance(owners.spec, LatentCache):
            out = [m for m in architecture.modules if m.kind is ModuleKind.ATTENTION and m.name.startswith("kv_b")]
            rows = max((m.rows for m in out), default=2 * owners.query_heads * 128)
            return ceil_div(rows, tensor)
    return 0


def rotary_elements(architecture: Architecture, picture_stretch: int) -> int:
    """Elements of the rotary tables: positions by each rotated width that layers share.

    Tables for positions in pictures are `picture_stretch` times as long.
    """
    rotary, tables = architecture.rotary, set()
    longer = rotary.stretch * (picture_stretch if rotary.pictures else 1)
    for owners in architecture.caches:
        spec = owners.spec
        if isinstance(spec, LatentCache):
            tables.add((False, float(spec.key_width - spec.read_width), longer))
        elif not isinstance(spec, RecurrentCache) and spec.value_width:
            local = rotary.local and spec.window_tokens is not None
            tables.add((True, float(spec.key_width), 1.0) if local else (False, spec.key_width * rotary.share, longer))
    return int((architecture.context_tokens or 0) * sum(width * rows for _, width, rows in tables))
