"""Entries as flat rows: what a list of the catalog shows of each, and what it can be filtered by.

Names carry their units; what an entry does not say is None. Rows of one kind always have the same names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

from service.domain.catalog import CatalogKind
from service.domain.configs import known_model_types

if TYPE_CHECKING:
    from service.domain.catalog import Entry

Row = dict[str, Any]
Facts = Mapping[str, Any]

_PEAKS: Final = ("fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4")
_NOTHING: Final[Facts] = {}
_READABLE: Final = frozenset(known_model_types())


def flat_row(entry: Entry) -> Row:
    """The row of an entry: its id and name, what its kind shows, and the revision it last changed in."""
    facts = entry.facts
    return {
        "id": entry.id,
        "name": facts.get("name"),
        **_COLUMNS[entry.kind](facts),
        "revision": entry.revision,
    }


def filter_values(kind: CatalogKind, facts: Facts) -> tuple[Any, ...]:
    """The values of an entry that `FILTERS[kind]` names, in their order."""
    row = _COLUMNS[kind](facts)
    # Few families, licences and formats stand in very many rows: each is kept once.
    return tuple(sys.intern(value) if type(value := row[name]) is str else value for name in FILTERS[kind])


def _model(facts: Facts) -> Row:
    config, checkpoint, count = _part(facts, "config"), _part(facts, "checkpoint"), _part(facts, "parameters")
    return {
        "hub_id": facts.get("hub_id"),
        "family": facts.get("family"),
        "architecture": config.get("model_type"),
        "has_reader": config.get("model_type") in _READABLE,
        "parameters": count.get("count"),
        "active_parameters": count.get("active"),
        "context_tokens": facts.get("context_tokens"),
        "weight_dtype": checkpoint.get("dtype"),
        "weight_bytes": checkpoint.get("weight_bytes") or checkpoint.get("weight_bytes_estimate"),
        "licence": facts.get("licence"),
        "released": facts.get("released"),
    }


def _gpu(facts: Facts) -> Row:
    memory, peaks, links = _part(facts, "memory"), _part(facts, "peak_flops_per_second"), _part(facts, "interconnect")
    mig = facts.get("mig")
    slice_of = mig if isinstance(mig, Mapping) else _NOTHING
    return {
        "vendor": facts.get("vendor"),
        "architecture": facts.get("architecture"),
        "compute_capability": facts.get("compute_capability"),
        "memory_bytes": memory.get("advertised_bytes"),
        "visible_memory_bytes": memory.get("visible_bytes"),
        "visible_memory_source": memory.get("visible_source"),
        "memory_type": memory.get("type"),
        "bandwidth_bytes_per_second": memory.get("bandwidth_bytes_per_second"),
        **{f"peak_{name}_flops_per_second": peaks.get(name) for name in _PEAKS},
        "nvlink_bytes_per_second": links.get("nvlink_bytes_per_second"),
        "power_watts": facts.get("power_watts"),
        "release_year": facts.get("release_year"),
        "mig": bool(slice_of),
        "mig_parent": slice_of.get("parent"),
        "mig_profile": slice_of.get("profile"),
    }


def _instance(facts: Facts) -> Row:
    price = _part(facts, "price")
    return {
        "cloud": facts.get("cloud"),
        "gpu": facts.get("gpu"),
        "gpu_count": facts.get("gpu_count"),
        "gpu_fraction": facts.get("gpu_fraction"),
        "vcpus": facts.get("vcpus"),
        "memory_bytes": facts.get("memory_bytes"),
        "network_bits_per_second": facts.get("network_bits_per_second"),
        "sold_as": facts.get("sold_as"),
        "price_usd_per_hour": price.get("usd_per_hour"),
        "price_region": price.get("region"),
        "price_as_of": price.get("as_of"),
        "price_kind": price.get("kind"),
    }


def _dtype(facts: Facts) -> Row:
    weight, cache = _part(facts, "weight"), _part(facts, "kv")
    return {
        "weight": bool(weight) or bool(facts.get("mix")),
        "kv": bool(cache),
        "gguf_mix": bool(facts.get("mix")),
        "weight_element_bits": _width(weight.get("element_bits")),
        "kv_element_bits": _width(cache.get("element_bits")),
    }


def _engine(facts: Facts) -> Row:
    releases = _part(facts, "releases").get("published") or ()
    newest_build = _part(facts, "builds").get("newest")
    if newest_build:
        return {"newest_version": f"b{newest_build}", "known_versions": newest_build}
    return {"newest_version": releases[-1] if releases else None, "known_versions": len(releases)}


def _part(facts: Facts, name: str) -> Facts:
    return facts.get(name) or _NOTHING


def _width(bits: str | float | None) -> float | None:
    """A width is written as a number or as a fraction such as 65/8: here always a number."""
    if bits is None:
        return None
    exact = Fraction(bits)
    return exact.numerator if exact.denominator == 1 else float(exact)


_COLUMNS: Final[Mapping[CatalogKind, Callable[[Facts], Row]]] = {
    CatalogKind.MODEL: _model,
    CatalogKind.GPU: _gpu,
    CatalogKind.INSTANCE: _instance,
    CatalogKind.DTYPE: _dtype,
    CatalogKind.ENGINE: _engine,
}

FILTERS: Final[Mapping[CatalogKind, tuple[str, ...]]] = {
    CatalogKind.MODEL: (
        "family", "architecture", "has_reader", "parameters", "active_parameters", "context_tokens", "weight_dtype",
        "licence",
    ),
    CatalogKind.GPU: (
        "vendor", "architecture", "memory_bytes", "visible_memory_bytes", "bandwidth_bytes_per_second", "release_year",
        "mig", "mig_parent",
    ),
    CatalogKind.INSTANCE: ("cloud", "gpu", "gpu_count", "memory_bytes", "sold_as", "price_usd_per_hour"),
    CatalogKind.DTYPE: ("weight", "kv", "gguf_mix"),
    CatalogKind.ENGINE: (),
}  # fmt: skip
"""Columns that lists are filtered by; snapshots keep their values at hand."""
