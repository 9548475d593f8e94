"""Engine `none`, the arithmetic of a textbook: the number on the box, exact weights, one reserve, no pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.catalog import Entry
    from service.domain.gpu import Gpu

ENGINES = ("none", "vllm", "sglang", "tensorrt-llm", "llama.cpp", "ollama", "tgi", "lmdeploy")
"""Every engine of the contract, also those that this release refuses by name."""


@dataclass(frozen=True, slots=True)
class ByWidth:
    """A figure for formats of 16 bits and more, and one for narrower ones."""

    wide: float
    narrow: float

    def of(self, bits: float) -> float:
        """The figure for a format of that many bits."""
        return self.wide if bits >= 16 else self.narrow  # noqa: PLR2004  # the word "wide" means this


@dataclass(frozen=True, slots=True)
class StepPolicy:
    """Coefficients of the time of a decode step and of a prefill, each dated in the catalog with its evidence."""

    layer_seconds: float
    expert_layer_seconds: float
    sequence_seconds: float
    all_reduce_seconds: float
    compute_fraction: float
    cache_fraction: ByWidth
    weight_fractions: tuple[tuple[str | None, str | None, float], ...]
    spread: float
    spread_experts: float
    prefill_maximum: ByWidth
    prefill_half_tokens: ByWidth
    prefill_attention_fraction: float
    prefill_spread: float
    nvlink_fraction: float
    pcie_bytes_per_second: int

    def weight_fraction(self, gpu: Gpu | None) -> float:
        """Share of the listed bandwidth that reading weights reaches on a device; the last rule is for any."""
        vendor, memory = (gpu.vendor, gpu.memory_type.casefold()) if gpu else ("", "")
        for wanted_vendor, wanted_memory, fraction in self.weight_fractions:
            if wanted_vendor in {None, vendor} and (wanted_memory is None or memory.startswith(wanted_memory)):
                return fraction
        return self.compute_fraction

    def link_bytes_per_second(self, gpu: Gpu | None) -> float:
        """Rate of a large all-reduce between devices of that kind."""
        if gpu and gpu.nvlink_bytes_per_second:
            return gpu.nvlink_bytes_per_second * self.nvlink_fraction
        return float(self.pcie_bytes_per_second)


@dataclass(frozen=True, slots=True, eq=False)
class PlainEngine:
    """The policy of engine `none`."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    memory_utilization: float
    reserve_bytes: int
    step: StepPolicy


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
            step=_step(facts["step"], facts["prefill"], facts["link"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error


def _step(step: Mapping[str, Any], prefill: Mapping[str, Any], link: Mapping[str, Any]) -> StepPolicy:
    rules = step["weight_fraction"]
    return StepPolicy(
        layer_seconds=float(step["layer_seconds"]["dense"]),
        expert_layer_seconds=float(step["layer_seconds"]["experts"]),
        sequence_seconds=float(step["sequence_seconds"]),
        all_reduce_seconds=float(step["all_reduce_seconds"]),
        compute_fraction=step["compute_fraction"],
        cache_fraction=ByWidth(**step["cache_fraction"]),
        weight_fractions=tuple((r.get("vendor"), r.get("memory"), r["fraction"]) for r in rules),
        spread=step["spread"],
        spread_experts=step["spread_experts"],
        prefill_maximum=ByWidth(**prefill["maximum"]),
        prefill_half_tokens=ByWidth(**prefill["half_tokens"]),
        prefill_attention_fraction=prefill["attention_fraction"],
        prefill_spread=prefill["spread"],
        nvlink_fraction=link["nvlink_fraction"],
        pcie_bytes_per_second=link["pcie_bytes_per_second"],
    )
