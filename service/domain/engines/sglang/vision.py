"""The vision encoder that SGLang's share of memory depends on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind
from service.domain.engines.vllm.shapes import remembered

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.model import Model


def vision_of(model: Model) -> tuple[int, int]:
    """Layers and hidden width of the vision encoder, zeros without one; remembered with the model."""
    found: tuple[int, int] = remembered(model, "vision", lambda: _vision(model.architecture))
    return found


def _vision(architecture: Architecture) -> tuple[int, int]:
    matrices = [m for m in architecture.modules if m.kind is ModuleKind.VISION and m.rows > 1 and m.columns > 1]
    if not matrices:
        return 0, 0
    main = max(matrices, key=lambda m: (m.count, m.elements))
    return main.count, min(min(m.rows, m.columns) for m in matrices if m.count == main.count)
