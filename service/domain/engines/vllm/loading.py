"""Weights as the engine loads them: kernels that pad, rotary tables, vocabularies rounded up (accounting 2.8, 7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Place, Shard
from service.domain.engines.prediction import drafted_bytes
from service.domain.engines.vllm import compressed_memory
from service.domain.engines.vllm.media import idle_towers, stands_whole
from service.domain.engines.vllm.offloading import hosted_bytes
from service.domain.engines.vllm.rules import Padding
from service.domain.engines.vllm.shapes import TOWERS, rotary_elements
from service.domain.parallel import stage_layers
from service.domain.units import ceil_div, up, whole
from service.domain.weights import rank_weights

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Device, Setting
    from service.domain.parallel import Layout
    from service.domain.precision import WeightFormat

_TABLES = frozenset({ModuleKind.EMBEDDING, ModuleKind.HEAD})
_SIXTEEN_BITS = 2


class Loaded(NamedTuple):
    """Weight bytes on the device of each stage's fullest rank, and what of them the engine adds and moves away."""

    stages: tuple[int, ...]
    rotary_bytes: int
    padded_bytes: tuple[int, ...]
    hosted_bytes: tuple[int, ...]
    """Bytes of each stage's rank that stay in host memory."""


def loaded(setting: Setting, rules: Rules, draft: int) -> Loaded:
    """Weights of every stage; `draft` prediction layers stand on the last."""
    architecture, layout, number = setting.model.architecture, setting.layout, setting.weights
    constants = rules.constants
    rotary = constants.rotary_element_bytes * rotary_elements(architecture, constants.picture_rotary_stretch)
    wider: tuple[int, ...] = (0,) * layout.pipeline
    if architecture.compressed:
        facts = rules.compressed.memory
        rotary = compressed_memory.rotary_bytes(setting, facts)
        wider = compressed_memory.wider_bytes(setting, facts)
    held, layers = rank_weights(architecture, number, layout), stage_layers(architecture.layers, layout.pipeline)
    left_out, hosted = _towers(setting, rules), hosted_bytes(setting, rules)
    sizes, padded = [], []
    for stage, weights in enumerate(held):
        last = stage == len(held) - 1
        extra = _vocabulary(setting, rules, first=stage == 0, last=last)
        extra += _expert_padding(setting, rules, layers[stage]) + wider[stage]
        drafted = _drafted(setting) if last and draft else 0
        spread = _spread_experts(weights.expert_bytes, architecture, layout)
        padded.append(extra)
        sizes.append(weights.bytes - spread - left_out[stage] - hosted[stage] + extra + rotary + drafted)
    return Loaded(tuple(sizes), rotary, tuple(padded), hosted)


def _drafted(setting: Setting) -> int:
    """Bytes of a drafter's layers on a rank."""
    if setting.model.architecture.compressed:
        return compressed_memory.drafted_bytes(setting)
    return drafted_bytes(setting.model.architecture, setting.weights, setting.layout.tensor)


def _padding_of(setting: Setting, rules: Rules, number: WeightFormat, *, gated: bool) -> Padding | None:
    """The padding of a format on the device; that of the kernels of one family of models where it has its own."""
    if not setting.model.architecture.compressed:
        return _padding(rules, number, setting.device, gated=gated)
    facts = rules.compressed.memory
    return Padding(number.name, 0.0, facts.expert_rows, facts.expert_columns, 1.0)


def _padding(rules: Rules, number: WeightFormat, device: Device, *, gated: bool) -> Padding | None:
    """The newest row for that format, and of those of one release the one for the highest capability reached."""
    capability = device.capability or 0
    rows = (p for p in rules.paddings if p.format == number.name and not (p.ungated and gated))
    held = [p for p in rows if p.capability <= capability]
    return held[-1] if held else None


def _vocabulary(setting: Setting, rules: Rules, *, first: bool, last: bool) -> int:
    """What rounding the vocabulary up adds to the tables of this stage."""
    architecture, tensor = setting.model.architecture, setting.layout.tensor
    own = architecture.vocabulary_size
    rows = up(own, rules.constants.vocabulary_multiple)
    added = 0
    for module in architecture.modules:
        if module.kind in _TABLES and module.rows == own and _stands(module, first=first, last=last):
            ranks = tensor if module.shard is Shard.ROWS else 1
            sizes = (_bytes(module, setting.weights, ceil_div(count, ranks)) for count in (rows, own))
            added += next(sizes) - next(sizes)
    return added


def _towers(setting: Setting, rules: Rules) -> list[int]:
    """Bytes of the encoders on each stage that are not loaded, less what those that stand whole hold besides."""
    architecture, number, layout = setting.model.architecture, setting.weights, setting.layout
    idle, undivided = idle_towers(setting, rules), stands_whole(setting, rules)
    if not (idle or undivided) or number.file_bytes is not None:
        return [0] * layout.pipeline
    kept = tuple(_undivided(m) if undivided else m for m in architecture.modules if m.kind not in idle)
    divided, loaded = (rank_weights(a, number, layout) for a in (architecture, replace(architecture, modules=kept)))
    return [before.bytes - after.bytes for before, after in zip(divided, loaded, strict=True)]


def _undivided(module: Module) -> Module:
    return replace(module, shard=Shard.REPLICATED) if module.kind in TOWERS else module


def _stands(module: Module, *, first: bool, last: bool) -> bool:
    """Whether the module stands on a stage that is the first, the last, or both."""
    places = {Place.BOTH_ENDS} | ({Place.FIRST} if first else set()) | ({Place.LAST} if last else set())
    return (first or last) and module.place in places


def _bytes(module: Module, number: WeightFormat, rows: int) -> int:
    return number.of(module).matrix_bytes(rows, module.columns, module.kind)


def _expert_padding(setting: Setting, rules: Rules, layers: range) -> int:
    """What the expert kernels' rounding of both sides adds; each module's kernel is that of its own format."""
    added, experts = 0, [m for m in setting.model.architecture.modules if _is_expert(m)]
    gated = len({m.name for m in experts if m.shard is Shard.ROWS}) > 1
    for module in experts:
        number = setting.weights.of(module)
        padding = _padding_of(setting, rules, number, gated=gated)
        if padding is None:
            continue
        rows, columns, count = _expert_shape(module, setting.layout)
        size = _padded(module, padding, number, rows, columns) - number.matrix_bytes(rows, columns, module.kind)
        added += sum(layer in layers for layer in module.layers) * count * size
    return added


def _is_expert(module: Module) -> bool:
    return module.kind is ModuleKind.EXPERT and module.columns > 1


def _padded(module: Module, padding: Padding, number: WeightFormat, rows: int, columns: int) -> int:
    wide_rows = module.shard is not Shard.COLUMNS
    steps = (padding.rows, padding.columns) if wide_rows else (padding.columns, padding.rows)
    size = number.matrix_bytes(up(rows, steps[0]), up(columns, steps[1]), module.kind)
    return whole(size * padding.factor)


def _expert_shape(module: Module, layout: Layout) -> tuple[int, int, int]:
    if layout.expert:
        return module.rows, module.columns, ceil_div(module.per_layer, layout.tensor * layout.data)
    if module.shard is Shard.COLUMNS:
        return module.rows, ceil_div(module.columns, layout.tensor), module.per_layer
    return ceil_div(module.rows, layout.tensor), module.columns, module.per_layer


def _spread_experts(expert_bytes: int, architecture: Architecture, layout: Layout) -> int:
    """Bytes of experts that stand on other replicas: expert parallelism spreads them over all of them."""
    count = architecture.experts[0]
    if not (layout.expert and layout.data > 1 and count):
        return 0
    here = ceil_div(count, layout.tensor)
    return expert_bytes - expert_bytes * ceil_div(count, layout.tensor * layout.data) // here
