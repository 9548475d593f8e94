"""The rows and entries of the catalog, as lists and single addresses show them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kvquote_client.reading import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ModelRow(Answer):
    """A model in a list."""

    essential: ClassVar[tuple[str, ...]] = ("id",)

    id: str
    name: str | None
    hub_id: str | None
    family: str | None
    architecture: str | None
    has_reader: bool
    parameters: int | None
    active_parameters: int | None
    context_tokens: int | None
    weight_dtype: str | None
    weight_bytes: int | None
    licence: str | None
    released: str | None
    revision: int


@dataclass(frozen=True)
class CacheLayers(Answer):
    """Layers that keep the same cache. Of a layer that keeps none of its own, `shared_with` says whose it reads."""

    kind: str
    layers: tuple[int, ...]
    kv_heads: int
    key_width: int
    value_width: int
    window_tokens: int | None
    state_bytes: int
    shared_with: tuple[int, ...]
    query_heads: int
    tokens_per_row: int
    read_limit_tokens: int | None


@dataclass(frozen=True)
class WeightModule(Answer):
    """A matrix of the model, `count` times."""

    name: str
    kind: str
    count: int
    shape: tuple[int, ...]
    parameters: int
    active_per_token: int
    layers: tuple[int, ...]


@dataclass(frozen=True)
class ModelEntry(ModelRow):
    """A model with all its facts. Where no reader knows it, `unread_reason` says so and its shapes are None."""

    aliases: tuple[str, ...]
    cache_layers: tuple[CacheLayers, ...] | None
    modules: tuple[WeightModule, ...] | None
    unread_reason: str | None
    facts: Mapping[str, Any]
    etag: str | None


@dataclass(frozen=True)
class InspectAnswer(Answer):
    """What a reader makes of a config.json; nothing of it is stored."""

    essential: ClassVar[tuple[str, ...]] = ("architecture", "modules")

    architecture: str
    parameters: int
    active_parameters: float
    context_tokens: int | None
    weight_dtype: str
    kv_dtype: str
    cache_layers: tuple[CacheLayers, ...]
    modules: tuple[WeightModule, ...]
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class GpuRow(Answer):
    """A GPU in a list."""

    essential: ClassVar[tuple[str, ...]] = ("id",)

    id: str
    name: str | None
    vendor: str | None
    architecture: str | None
    compute_capability: str | None
    memory_bytes: int | None
    visible_memory_bytes: int | None
    visible_memory_source: str | None
    memory_type: str | None
    bandwidth_bytes_per_second: float | None
    peak_fp32_flops_per_second: float | None
    peak_tf32_flops_per_second: float | None
    peak_fp16_flops_per_second: float | None
    peak_bf16_flops_per_second: float | None
    peak_fp8_flops_per_second: float | None
    peak_int8_flops_per_second: float | None
    peak_fp4_flops_per_second: float | None
    nvlink_bytes_per_second: float | None
    power_watts: float | None
    release_year: int | None
    mig: bool
    mig_parent: str | None
    mig_profile: str | None
    revision: int


@dataclass(frozen=True)
class GpuEntry(GpuRow):
    """A GPU with all its facts; `etag` is what a write has to know."""

    aliases: tuple[str, ...]
    facts: Mapping[str, Any]
    etag: str | None


@dataclass(frozen=True)
class InstanceRow(Answer):
    """What a cloud rents in a list."""

    essential: ClassVar[tuple[str, ...]] = ("id",)

    id: str
    name: str | None
    cloud: str | None
    gpu: str | None
    gpu_count: int | None
    gpu_fraction: str | None
    vcpus: int | None
    memory_bytes: int | None
    network_bits_per_second: float | None
    sold_as: str | None
    price_usd_per_hour: float | None
    price_region: str | None
    price_as_of: str | None
    price_kind: str | None
    revision: int


@dataclass(frozen=True)
class InstanceEntry(InstanceRow):
    """What a cloud rents with all its facts."""

    aliases: tuple[str, ...]
    facts: Mapping[str, Any]
    etag: str | None


@dataclass(frozen=True)
class DtypeRow(Answer):
    """A number format in a list."""

    essential: ClassVar[tuple[str, ...]] = ("id",)

    id: str
    name: str | None
    weight: bool
    kv: bool
    gguf_mix: bool
    weight_element_bits: float | None
    kv_element_bits: float | None
    revision: int


@dataclass(frozen=True)
class DtypeEntry(DtypeRow):
    """A number format with all its facts."""

    aliases: tuple[str, ...]
    facts: Mapping[str, Any]
    etag: str | None


@dataclass(frozen=True)
class EngineRow(Answer):
    """An engine in a list."""

    essential: ClassVar[tuple[str, ...]] = ("id",)

    id: str
    name: str | None
    newest_version: str | None
    known_versions: int
    revision: int


@dataclass(frozen=True)
class EngineEntry(EngineRow):
    """An engine with all its facts."""

    aliases: tuple[str, ...]
    facts: Mapping[str, Any]
    etag: str | None


@dataclass(frozen=True)
class EntryRevision(Answer):
    """One change of an entry: who, when, where from, and what it was made to be.

    None stands for what something else damaged in the database.
    """

    essential: ClassVar[tuple[str, ...]] = ("revision",)

    revision: int
    made_at: str | None
    action: str
    author: str | None
    origin: str | None
    summary: str | None
    changes: tuple[str, ...]
    facts: Mapping[str, Any] | None
