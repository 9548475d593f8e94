"""The vision encoder that SGLang's share of memory depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind
from service.domain.memo import remembered

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.engines.sglang.rules import EncoderRule
    from service.domain.model import Model


def vision_of(model: Model, rule: EncoderRule) -> tuple[int, int]:
    """Layers and hidden width of the vision encoder as the release reads them off the config, zeros without one."""
    found: tuple[int, int] = remembered(model, "vision", lambda: _vision(model.architecture))
    layers, hidden = found
    architecture = model.architecture
    if not layers:
        return found
    if architecture.model_type in rule.unnamed:
        layers = rule.layers
    return layers, architecture.hidden_size if architecture.model_type in rule.as_decoder else hidden


def reads_media(model: Model) -> bool:
    """Whether the model takes pictures or sound; remembered with it."""
    kinds = {ModuleKind.VISION, ModuleKind.AUDIO}
    found: bool = remembered(model, "media", lambda: any(m.kind in kinds for m in model.architecture.modules))
    return found


def _vision(architecture: Architecture) -> tuple[int, int]:
    matrices = [m for m in architecture.modules if m.kind is ModuleKind.VISION and m.rows > 1 and m.columns > 1]
    if not matrices:
        return 0, 0
    main = max(matrices, key=lambda m: (m.count, m.elements))
    return main.count, min(min(m.rows, m.columns) for m in matrices if m.count == main.count)
