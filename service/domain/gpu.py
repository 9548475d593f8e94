"""An accelerator as a process sees it: memory, bandwidth and dense peaks, all per device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.catalog import Entry

_SIXTEEN_BIT = ("bf16", "fp16")


@dataclass(frozen=True, slots=True, eq=False)
class Gpu:
    """One kind of device; peaks are dense rates in FLOP/s (operations a second for int8), absent where unsupported.

    `margins` say by how much a measurement of a kind may honestly pass what is listed, as a fraction.
    """

    id: str
    name: str
    vendor: str
    architecture: str
    advertised_bytes: int
    visible_bytes: int | None
    visible_source: str
    memory_type: str
    bandwidth_bytes_per_second: int | None
    peaks: Mapping[str, int]
    nvlink_bytes_per_second: int | None
    pcie: str | None
    compute_capability: float | None
    unified: bool
    l2_cache_bytes: int | None
    margins: Mapping[str, float]
    revision: int
    driver_total_bytes: int | None = None
    """What the driver counts, more than a process sees; None where nobody wrote it down."""

    def peak(self, types: tuple[str, ...]) -> tuple[str, int] | None:
        """The first of the types that this device multiplies, and its peak; 16-bit types stand for each other."""
        peaks = self.peaks
        for name in types:
            if name in peaks:
                return name, peaks[name]
            for other in _SIXTEEN_BIT if name in _SIXTEEN_BIT else ():
                if other in peaks:
                    return other, peaks[other]
        return None

    def runs(self, number: str) -> bool:
        """Whether the device multiplies that number type."""
        return number in self.peaks


def from_facts(entry: Entry) -> Gpu:
    """Read a catalog entry of kind `gpu`; raises CatalogFactError where a figure is missing."""
    facts = entry.facts
    try:
        return _read(entry, facts, facts["memory"], facts.get("interconnect") or {})
    except (KeyError, TypeError) as error:
        raise CatalogFactError.at("/facts", f"The device {entry.id} cannot be read: {error}.") from error


def _read(entry: Entry, facts: Mapping[str, Any], memory: Mapping[str, Any], links: Mapping[str, Any]) -> Gpu:
    peaks = facts["peak_flops_per_second"]
    return Gpu(
        id=entry.id,
        name=facts["name"],
        vendor=facts["vendor"],
        architecture=facts["architecture"],
        advertised_bytes=memory["advertised_bytes"],
        visible_bytes=memory.get("visible_bytes"),
        visible_source=memory.get("visible_source") or "catalog",
        memory_type=memory["type"],
        bandwidth_bytes_per_second=_rate(memory.get("bandwidth_bytes_per_second")),
        peaks={name: int(rate) for name, rate in peaks.items() if rate},
        nvlink_bytes_per_second=_rate(links.get("nvlink_bytes_per_second")),
        pcie=links.get("pcie"),
        compute_capability=_capability(facts.get("compute_capability")),
        unified=bool(memory.get("unified")),
        l2_cache_bytes=facts.get("l2_cache_bytes"),
        margins=facts.get("measurement_margins") or {},
        revision=entry.revision,
        driver_total_bytes=memory.get("driver_total_bytes"),
    )


def _capability(value: str | None) -> float | None:
    """NVIDIA's compute capability as a number; other vendors name their architectures."""
    try:
        return None if value is None else float(value)
    except ValueError:
        return None


def _rate(value: float | None) -> int | None:
    """Rates are written as 2.039e12 and are whole numbers."""
    return None if value is None else int(value)
