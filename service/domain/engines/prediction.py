"""Drafters that live in the target's process: how many layers they add, and what those weigh."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind, Place, Shard

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.precision import WeightFormat

_SIXTEEN_BITS = 2
_QUANTIZED_BITS = range(8, 16)
"""Widths in which checkpoints store experts of prediction layers as their others; narrower ones keep 16."""
_FUSION = "eh_proj"


def predicted_layers(architecture: Architecture) -> int:
    """Prediction layers of the checkpoint: each has one projection that fuses a hidden state with a token's row."""
    fusions = (m for m in architecture.modules if m.kind is ModuleKind.PREDICTION and m.name.endswith(_FUSION))
    return sum(m.count for m in fusions)


def drafted_bytes(architecture: Architecture, number: WeightFormat, tensor: int) -> int:
    """A rank's share of the checkpoint's prediction layers; of one average layer and a fusion where it has none."""
    total = 0
    for module in architecture.modules:
        if module.kind is not ModuleKind.PREDICTION or module.rows == architecture.vocabulary_size:
            continue
        size = _SIXTEEN_BITS * module.elements
        if module.per_layer > 1 and int(number.element_bits) in _QUANTIZED_BITS:
            size = number.matrix_bytes(module.rows, module.columns, ModuleKind.EXPERT)
        total += module.count * size // (1 if module.shard is Shard.REPLICATED else tensor)
    if total:
        return total
    layers = sum(m.parameters for m in architecture.modules if m.place is Place.LAYERS)
    return _SIXTEEN_BITS * (layers // architecture.layers + 2 * architecture.hidden_size**2) // tensor
