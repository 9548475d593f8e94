"""What a reader is told besides what the engine says, and what all readers make of both."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kvquote_probe.engine.figures import told
from kvquote_probe.engine.site import EngineError
from kvquote_probe.names import plain_text
from kvquote_probe.readings import Reading

KIND = "engine_capacity"


def unknown(model: str) -> bool | None:
    """For when nobody can be asked about a model's cache."""
    del model
    return None


@dataclass(frozen=True)
class Told:
    """What a person or the machine adds: the device, names of the setup, and whether all layers cache alike.

    `is_uniform` answers for a model's name where `uniform` is not given: True where every layer keeps the same kind of
    cache, so that blocks × tokens of a block are tokens; None where it does not know the model.
    """

    gpu: Mapping[str, Any] | None = None
    setup: Mapping[str, Any] = field(default_factory=dict)
    uniform: bool | None = None
    is_uniform: Callable[[str], bool | None] = unknown
    unified: bool | None = None
    """llama.cpp: whether its slots share one cache (`--kv-unified`)."""

    def counts_by_blocks(self, model: str | None) -> bool:
        """Whether blocks may be counted as tokens."""
        if self.uniform is not None:
            return self.uniform
        model = self.setup.get("model", model)
        return model is not None and self.is_uniform(model) is True


def reading(engine: str, version: object, values: Mapping[str, Any], setup: Mapping[str, Any], given: Told) -> Reading:
    """A reading of an engine's capacity; what a person told of the setup goes before what the engine says."""
    setup = {**told(setup), **given.setup}
    return Reading(
        KIND,
        told(values),
        setup=setup,
        gpu=_whole_gpu(given.gpu, setup),
        software=told({"engine": engine, "engine_version": plain_text(version)}),
    )


def _whole_gpu(gpu: Mapping[str, Any] | None, setup: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The device without a count that is of this machine alone, where the engine runs on several."""
    ranks = (setup.get("tensor_parallel") or 1) * (setup.get("pipeline_parallel") or 1)
    if gpu is None or gpu.get("count", ranks) >= ranks:
        return gpu
    return {name: value for name, value in gpu.items() if name != "count"}


def tokens_of_blocks(blocks: int | None, block_tokens: int | None, model: str | None, given: Told) -> int | None:
    """Blocks × tokens of a block, where that is what the pool holds.

    Raises EngineError where it is not certain: a model that mixes caches shares its blocks between them.
    """
    if blocks is None or block_tokens is None:
        return None
    if given.counts_by_blocks(model):
        return blocks * block_tokens
    raise EngineError(
        f"It has {blocks:,} blocks of {block_tokens} tokens, and does not say how many tokens that holds: where layers "
        "cache differently, fewer. Say --uniform-cache if all layers of this model cache alike, or give the start-up "
        "log with --log."
    )


def nothing_told(engine: str, missing: str) -> EngineError:
    """For an engine that answers and does not say its capacity."""
    return EngineError(
        f"This {engine} server does not tell its capacity: {missing}, or give its start-up log with --log."
    )
