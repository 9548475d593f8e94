"""Engine `none`, the arithmetic of a textbook: the number on the box, exact weights, one reserve, no pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain import measurement_limits
from service.domain.engines.times import StepPolicy, step_policy
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.architecture import Architecture
    from service.domain.catalog import Entry
    from service.domain.gpu import Gpu
    from service.domain.measurement_limits import Limits
    from service.domain.model import Model

__all__ = [
    "ENGINES",
    "PLAIN_TYPES",
    "SIXTEEN_BIT_TYPES",
    "EngineDefaults",
    "LengthRule",
    "PlainEngine",
    "StepPolicy",
    "from_facts",
    "step_policy",
]

PLAIN_TYPES = frozenset({"fp32", "bf16", "fp16"})
"""Types that are computed in as they are stored."""
SIXTEEN_BIT_TYPES = frozenset({"bf16", "fp16"})

ENGINES = ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "tgi", "lmdeploy")
"""Every engine of the contract, also those that this release refuses by name."""


class LengthRule(NamedTuple):
    """What a release takes for a model's longest sequence, where positions are scaled."""

    short_of_two: bool = False
    """Of two sets of rotary frequencies the shorter one's, where nobody says how long."""
    yarn_multiplies: bool = True
    """Whether yarn's factor counts over the positions it was trained for; else those of the config alone."""


class EngineDefaults(NamedTuple):
    """What an engine's release fills in; `reserve_bytes` is None where the reserve is modelled."""

    version: str | None
    notes: tuple[str, ...]
    memory_basis: str
    memory_utilization: float
    reserve_bytes: int | None
    lengths: LengthRule = LengthRule()
    typed_states: frozenset[str] = frozenset()
    """Mixers whose recurrent states may be told to be of another type than the config's."""
    compressed_cache: tuple[frozenset[str], str] | None = None
    """Types that mean another one where attention is compressed, and that one."""

    def cache_meant(self, name: str, architecture: Architecture) -> str:
        """The type that the engine keeps where it is asked for one."""
        if self.compressed_cache is None or not architecture.compressed:
            return name
        names, own = self.compressed_cache
        return own if name in names else name


@dataclass(frozen=True, slots=True, eq=False)
class PlainEngine:
    """The policy of engine `none`; `limits` are what measurements are held to, None in a catalog of before."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    memory_utilization: float
    reserve_bytes: int
    step: StepPolicy
    limits: Limits | None = None

    def release_defaults(self, asked: Mapping[str, Any]) -> EngineDefaults:  # noqa: ARG002  # as other engines
        """The same whatever is asked; a textbook has no releases, and `takes` none."""
        return EngineDefaults(None, (), self.memory_basis, self.memory_utilization, self.reserve_bytes)

    def weight_name(self, asked: str | None, model: Model, gpu: Gpu | None) -> str:  # noqa: ARG002  # as other engines
        """What was asked, or what the checkpoint is stored in."""
        return asked or model.checkpoint_format

    def cache_name(self, asked: str | None, model: Model, weight_name: str, gpu: Gpu | None) -> str:  # noqa: ARG002
        """The checkpoint's own scheme, else the type computed in: a plain weight type that was asked is that type."""
        if model.cache_format:
            return model.cache_format
        return weight_name if asked in PLAIN_TYPES else model.compute_type


def from_facts(entry: Entry) -> PlainEngine:
    """Read a catalog entry of kind `engine`; raises CatalogFactError where a figure is missing."""
    facts = entry.facts
    try:
        rules = facts["versions"][-1]
        return PlainEngine(
            name=entry.id,
            takes=frozenset(facts["takes"]),
            memory_basis=rules["memory_basis"],
            memory_utilization=rules["memory_utilization"],
            reserve_bytes=rules["reserve_bytes"],
            step=step_policy(facts),
            limits=measurement_limits.from_facts(facts["measurements"]) if "measurements" in facts else None,
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error
