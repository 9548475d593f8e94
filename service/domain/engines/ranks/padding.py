"""Experts as their kernels keep them: matrices whose sides are rounded up (accounting 7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind, Shard
from service.domain.memo import remembered
from service.domain.parallel import stage_layers
from service.domain.units import ceil_div, up, whole

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.engines.ranks.setting import Setting
    from service.domain.parallel import Layout
    from service.domain.precision import WeightFormat


@dataclass(frozen=True, slots=True)
class ExpertKernel:
    """How the kernel of devices from a capability on rounds a rank's matrices up: the inner side and the outer one.

    `factor` is what its layout takes beyond that.
    """

    format: str
    capability: float
    inner: int
    outer: int
    factor: float


def padded_bytes(setting: Setting, kernels: tuple[ExpertKernel, ...]) -> tuple[int, ...]:
    """Bytes that rounding adds on every stage; nothing where the question says what the weights take."""
    scenario = setting.scenario
    if scenario.weight_bytes is not None or scenario.parameters is not None:
        return (0,) * scenario.layout.pipeline
    reached = _reached(kernels, setting)
    model, weights, layout = scenario.model, scenario.weights, scenario.layout
    key = ("expert-kernels", weights, layout, reached)
    found: tuple[int, ...] = remembered(model, key, lambda: _stages(model.architecture, weights, layout, reached))
    return found


def kernel_of(kernels: tuple[ExpertKernel, ...], name: str, setting: Setting) -> ExpertKernel | None:
    """The kernel that the setting's device runs experts of a format with, None where it is not described."""
    return next((kernel for kernel in reversed(_reached(kernels, setting)) if kernel.format == name), None)


def _reached(kernels: tuple[ExpertKernel, ...], setting: Setting) -> tuple[ExpertKernel, ...]:
    capability = (setting.gpu.compute_capability if setting.gpu else None) or 0.0
    return tuple(kernel for kernel in kernels if kernel.capability <= capability)


def _stages(
    architecture: Architecture, weights: WeightFormat, layout: Layout, kernels: tuple[ExpertKernel, ...]
) -> tuple[int, ...]:
    sums = [0] * layout.pipeline
    experts = [m for m in architecture.modules if m.kind is ModuleKind.EXPERT and m.columns > 1]
    for module in experts:
        number = weights.of(module)
        kernel = next((kernel for kernel in reversed(kernels) if kernel.format == number.name), None)
        if kernel is None:
            continue
        added = _added(module, number, kernel, layout)
        for stage, layers in enumerate(stage_layers(architecture.layers, layout.pipeline)):
            sums[stage] += added * sum(layer in layers for layer in module.layers)
    return tuple(sums)


def _added(module: Module, number: WeightFormat, kernel: ExpertKernel, layout: Layout) -> int:
    """What a layer's matrices of one role take beyond those of the file."""
    rows, columns, count = module.rows, module.columns, module.per_layer
    inner_columns = module.shard is Shard.COLUMNS
    if layout.expert:
        count = ceil_div(count, layout.tensor)
    elif inner_columns:
        columns = ceil_div(columns, layout.tensor)
    else:
        rows = ceil_div(rows, layout.tensor)
    steps = (kernel.outer, kernel.inner) if inner_columns else (kernel.inner, kernel.outer)
    size = whole(number.matrix_bytes(up(rows, steps[0]), up(columns, steps[1]), module.kind) * kernel.factor)
    return count * (size - number.matrix_bytes(rows, columns, module.kind))
