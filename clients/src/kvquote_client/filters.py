"""What lists can be filtered by, a table each, from which the command line has its options too; and import's names."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, TypedDict
from uuid import UUID


class PageFilters(TypedDict, total=False):
    """What every list takes."""

    limit: Annotated[int, "Rows of a page, up to 500"]
    cursor: Annotated[str, "next_cursor of a page, with the same filters: go on from there"]


class EntryFilters(PageFilters, total=False):
    """What every list of the catalog takes."""

    q: Annotated[str, "A part of any name an entry answers to, in any case"]
    as_of: Annotated[str | datetime, "The list as it was then"]


class ModelFilters(EntryFilters, total=False):
    """Filters of models; several values of a name mean any of them."""

    family: Annotated[str | Sequence[str], "Family it belongs to"]
    architecture: Annotated[str | Sequence[str], "The config's model_type"]
    has_reader: Annotated[bool, "Whether it can be quoted"]
    weight_dtype: Annotated[str | Sequence[str], "Number format of its checkpoint"]
    licence: Annotated[str | Sequence[str], "Licence as the hub tags it"]
    min_parameters: Annotated[float, "At least so many"]
    max_parameters: Annotated[float, "At most so many"]
    min_active_parameters: Annotated[float, "At least so many used by one token"]
    max_active_parameters: Annotated[float, "At most so many used by one token"]
    min_context_tokens: Annotated[float, "Published for at least so long a context"]
    max_context_tokens: Annotated[float, "Published for at most so long a context"]


class GpuFilters(EntryFilters, total=False):
    """Filters of GPUs."""

    vendor: Annotated[str | Sequence[str], "Who makes it"]
    architecture: Annotated[str | Sequence[str], "Architecture generation"]
    mig: Annotated[bool, "Slices of a card alone, or whole cards alone"]
    mig_parent: Annotated[str | Sequence[str], "Slices of this card"]
    min_memory_bytes: Annotated[float, "At least so much on the box"]
    max_memory_bytes: Annotated[float, "At most so much on the box"]
    min_visible_memory_bytes: Annotated[float, "At least so much seen by a process"]
    max_visible_memory_bytes: Annotated[float, "At most so much seen by a process"]
    min_bandwidth_bytes_per_second: Annotated[float, "At least so fast"]
    max_bandwidth_bytes_per_second: Annotated[float, "At most so fast"]
    min_release_year: Annotated[int, "Released then or later"]
    max_release_year: Annotated[int, "Released then or earlier"]


class InstanceFilters(EntryFilters, total=False):
    """Filters of cloud instances."""

    cloud: Annotated[str | Sequence[str], "Who rents it"]
    gpu: Annotated[str | Sequence[str], "Slug or alias of its GPU"]
    sold_as: Annotated[str | Sequence[str], "on_demand, capacity_block or reservation"]
    min_gpu_count: Annotated[int, "At least so many GPUs"]
    max_gpu_count: Annotated[int, "At most so many GPUs"]
    min_memory_bytes: Annotated[float, "At least so much host memory"]
    max_memory_bytes: Annotated[float, "At most so much host memory"]
    min_price_usd_per_hour: Annotated[float, "At least so dear; leaves out those without a price"]
    max_price_usd_per_hour: Annotated[float, "At most so dear; leaves out those without a price"]


class DtypeFilters(EntryFilters, total=False):
    """Filters of number formats."""

    weight: Annotated[bool, "Whether weights are stored in it"]
    kv: Annotated[bool, "Whether a cache is kept in it"]
    gguf_mix: Annotated[bool, "Whether it is a GGUF file type, which mixes formats"]


class MeasurementFilters(PageFilters, total=False):
    """Filters of measurements."""

    kind: Annotated[str | Sequence[str], "The kind of measurement"]
    gpu: Annotated[str | Sequence[str], "Any name of the GPU, or one that no GPU has yet"]
    model: Annotated[str | Sequence[str], "Any name of the model, or one that no model has yet"]
    engine: Annotated[str | Sequence[str], "The engine that ran"]
    verdict: Annotated[str | Sequence[str], "accepted, unmatched or quarantined"]
    probe_id: Annotated[str | UUID, "Who measured"]
    since: Annotated[str | datetime, "Measured at that time or later"]
    until: Annotated[str | datetime, "Measured before that time"]


class CalibrationFilters(PageFilters, total=False):
    """Filters of what was learned."""

    quantity: Annotated[str | Sequence[str], "What was learned: visible_memory, reserve, weights, bandwidth, step, …"]
    gpu: Annotated[str | Sequence[str], "Any name of the GPU"]
    engine: Annotated[str | Sequence[str], "The engine"]
    rung: Annotated[str | Sequence[str], "What its measurements have in common, such as gpu+engine"]
    usable: Annotated[bool, "Whether quotes use it"]
    history: Annotated[bool, "What was known before, too"]
    as_of: Annotated[str | datetime, "What was known then"]


class AccuracyFilters(PageFilters, total=False):
    """Filters of how quotes fared."""

    family: Annotated[str | Sequence[str], "The models' published model_type"]
    gpu: Annotated[str | Sequence[str], "Any name of the GPU"]
    engine: Annotated[str | Sequence[str], "The engine"]
    engine_version: Annotated[str | Sequence[str], "The engine's release"]


class ImportFacts(TypedDict, total=False):
    """What an import may say beside the hub id and the config."""

    name: Annotated[str, "Name for people; the last part of the hub id without it"]
    family: Annotated[str, "Family it belongs to"]
    licence: Annotated[str, "Licence as the hub tags it"]
    safetensors_index: Annotated[Mapping[str, Any], "The checkpoint's model.safetensors.index.json"]
    safetensors_header: Annotated[
        Mapping[str, Any] | Sequence[Mapping[str, Any]], "Its JSON header, or those of all files"
    ]
