"""The circumstances that something is learned under, and asked for: device, engine, layout, class of model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.architecture import ModuleKind
from service.domain.cache.base import CacheKind
from service.domain.calibration import Scope
from service.domain.memo import remembered

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.gpu import Gpu
    from service.domain.model import Model
    from service.domain.parallel import Layout
    from service.domain.question import Question

NO_ENGINE: Final = "none"
RESERVING: Final = frozenset({"vllm", "sglang", "tensorrt-llm"})
"""Engines that give their cache what a reserve leaves; others allocate what they are told."""

_PROFILES: Final = "vllm"
_ANY_BATCH: Final = "any"
_CLASS: Final = "class"
_BATCHES: Final = ((8, "1-7"), (64, "8-63"))
_LARGE_BATCH: Final = "64+"


def device_scope(gpu: Gpu, **more: str | None) -> Scope:
    """The circumstances of a device alone."""
    return Scope(gpu=gpu.id, architecture=f"{gpu.vendor} {gpu.architecture}", **more)


def scope_of(question: Question, **more: str | None) -> Scope:
    """The circumstances of a question that an engine holds; nothing where no GPU is named."""
    if question.gpu is None:
        return Scope()
    return device_scope(
        question.gpu,
        engine=question.engine.name,
        version=question.version or NO_ENGINE,
        layout=layout_name(question.scenario.layout),
        model_class=_class_of(question.scenario.model),
        **more,
    )


def layout_name(layout: Layout) -> str:
    """How the ranks of a replica are laid out."""
    stages = f"pp{layout.pipeline}" if layout.pipeline > 1 else ""
    return f"tp{layout.tensor}{stages}{'ep' if layout.expert else ''}"


def _class_of(model: Model) -> str:
    """The class of a model, worked out once."""
    found: str = remembered(model, _CLASS, lambda: class_of(model.architecture))
    return found


def class_of(architecture: Architecture) -> str:
    """What of a model decides which of an engine's buffers it needs."""
    kinds = {owners.spec.kind for owners in architecture.caches}
    modules = {module.kind for module in architecture.modules}
    words = {
        "experts": bool(architecture.experts[0]),
        "latent": CacheKind.LATENT in kinds,
        "recurrent": CacheKind.RECURRENT in kinds,
        "windowed": bool(kinds & {CacheKind.SLIDING, CacheKind.CHUNKED}),
        "encoder": bool(modules & {ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER}),
    }
    return "+".join(word for word, holds in words.items() if holds) or "dense"


def batch_name(batch: int) -> str:
    """Batches whose steps spend their time alike."""
    return next((name for below, name in _BATCHES if batch < below), _LARGE_BATCH)


def engine_batch(question: Question) -> str:
    """Tokens and sequences of the batches that vLLM is started for, which profiling then measures memory with.

    As asked, or as the release fills them in. SGLang derives its own from the cache that is left.
    """
    from service.domain.engines.vllm.holding import batch_for  # noqa: PLC0415  # it builds on questions

    if question.engine.name != _PROFILES:
        return _ANY_BATCH
    batch = batch_for(question)
    return f"{batch.tokens}x{batch.sequences}"
