"""Which number types an engine loads and keeps where the question leaves it to the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.engines.plain import PLAIN_TYPES
from service.domain.engines.vllm.policy import runnable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.gpu import Gpu
    from service.domain.model import Model


def weight_name(asked: str | None, model: Model, gpu: Gpu | None, loaded_as: Mapping[str, str]) -> str:
    """What is loaded: some formats as others, 16 bits of a 32-bit checkpoint, fp8 as the checkpoint has it."""
    own = model.checkpoint_format
    if asked is None:
        return runnable(own, gpu)
    return own if asked == "fp8" and own.startswith("fp8") else loaded_as.get(asked, asked)


def cache_name(asked: str | None, model: Model, weights: str, gpu: Gpu | None) -> str:
    """The checkpoint's own scheme, else the type computed in."""
    if model.cache_format:
        return model.cache_format
    return weights if asked in PLAIN_TYPES else runnable(model.compute_type, gpu)
