"""What speaks against a measurement: the physics of the device (probe reference, section 5).

Each check returns a reason, or None. All of them are lower bounds of what honest runs need: what they refuse cannot
have happened, whatever engine, kernel or cache was at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from service.domain.units import GIB

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from service.domain.gpu import Gpu
    from service.domain.measurement_limits import Limits, Window
    from service.domain.model import Model
    from service.domain.precision import NumberFormat

UNITS = (
    (8, "bits for bytes"),
    (1024, "a unit of 1,024"),
    (1024**2, "a unit of 1,024²"),
    (1024**3, "a unit of 1,024³"),
)
# Below the first three digits say "1 times", from the second on nobody counts hundredths.
_JUST_ABOVE, _WHOLE = 1.005, 100
_MATMUL_TYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "float8_e4m3fn": "fp8",
    "float8_e4m3fnuz": "fp8",
    "float8_e5m2": "fp8",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
}


class Doubt(NamedTuple):
    """Why a name leads to nothing."""

    detail: str


class Formats(Protocol):
    """Where number formats are looked up."""

    def format(self, name: str) -> NumberFormat | Doubt:
        """The format, or why there is none."""

    def remember(self, key: Hashable, make: Callable[[], Any]) -> Any:  # noqa: ANN401  # as it was made
        """What follows from shapes alone, made once for rows that are alike."""


class Bench(NamedTuple):
    """One row beside what it is compared with; `model` is there where the kind is about one."""

    gpu: Gpu
    model: Model | None
    row: Mapping[str, Any]
    formats: Formats
    limits: Limits

    @property
    def values(self) -> Mapping[str, Any]:
        """What was measured."""
        values: Mapping[str, Any] = self.row["values"]
        return values

    @property
    def setup(self) -> Mapping[str, Any]:
        """Under which settings."""
        return self.row.get("setup") or {}

    def margin(self, kind: str) -> float:
        """How far above the list an honest figure may be, as a factor."""
        return 1 + self.gpu.margins.get(kind, self.limits.margin)

    @property
    def memory_limit(self) -> float:
        """Bytes that no process sees more of."""
        return memory_limit(self.gpu, self.limits)


def memory_limit(gpu: Gpu, limits: Limits) -> float:
    """Bytes that no process sees more of: the number on the box read as GiB, or what was seen, and a margin."""
    return max(gpu.advertised_bytes / 1e9 * GIB, gpu.visible_bytes or 0) * (1 + limits.memory_margin)


def impossible_memory(gpu: Gpu, row: Mapping[str, Any], limits: Limits) -> str | None:
    """More memory than the device has, in what the row says of it, or what only a part of it has."""
    told = row.get("gpu") or {}
    stated, whole = told.get("memory_bytes"), gpu.visible_bytes or gpu.advertised_bytes
    if stated is None:
        return None
    wrong = above("gpu.memory_bytes", stated, memory_limit(gpu, limits), gpu) or small_unit(
        "gpu.memory_bytes", stated, whole, limits.other_unit["memory"]
    )
    least = 0.0 if told.get("mig_profile") else limits.least_memory
    return wrong or part("gpu.memory_bytes", stated, whole, least, gpu)


def part(name: str, value: float, whole: float, least: float, gpu: Gpu) -> str | None:
    """Memory of a slice under the name of the whole card: less than the share `least` of it."""
    if value >= least * whole:
        return None
    return f"{name} is {value / whole:.3g} of what {gpu.id} has: a slice is told by its mig_profile."


def above(name: str, value: float, limit: float, gpu: Gpu, what: str = "can hold") -> str | None:
    """A figure beyond what the device can do, with the unit that was perhaps meant."""
    if value <= limit:
        return None
    ratio = value / limit
    unit = next((f": {words}?" for factor, words in UNITS if 0.5 <= ratio / factor <= 1.1), ".")  # noqa: PLR2004
    beyond = "just above" if ratio < _JUST_ABOVE else f"{ratio:,.{0 if ratio >= _WHOLE else 2}f} times"
    return f"{name} is {beyond} what {gpu.id} {what}{unit}"


def small_unit(name: str, value: float, expected: float, window: Window) -> str | None:
    """A figure that is far too small, and right once it is taken for another unit."""
    if value * UNITS[0][0] > window.most * expected:
        # Too large for the smallest of them, as nearly every figure is.
        return None
    for factor, words in UNITS:
        if window.holds(value * factor / expected):
            return f"{name} is right only {factor:,} times as large: {words}?"
    return None


def below(name: str, value: float, least: float, gpu: Gpu, what: str) -> str | None:
    """A figure that is too small to be true of the device."""
    return f"{name} is less than {gpu.id} {what} on its worst day: another unit?" if value < least else None


def device_memory(bench: Bench) -> str | None:
    """More than the box, parts above the whole, another unit, or a part of a device."""
    limit, values, gpu = bench.memory_limit, bench.values, bench.gpu
    total = values["total_bytes"]
    for name in ("total_bytes", "nvml_total_bytes", "free_bytes", "context_bytes"):
        wrong = above(name, values.get(name) or 0, limit, gpu)
        if wrong:
            return wrong
    for name in ("free_bytes", "context_bytes"):
        if (values.get(name) or 0) > total:
            return f"{name} is more than total_bytes."
    whole = gpu.visible_bytes or gpu.advertised_bytes
    wrong = small_unit("total_bytes", total, whole, bench.limits.other_unit["memory"])
    least = 0.0 if (bench.row.get("gpu") or {}).get("mig_profile") else bench.limits.least_memory
    return wrong or part("total_bytes", total, whole, least, gpu)


def memory_bandwidth(bench: Bench) -> str | None:
    """Faster than the memory, far slower, or another unit."""
    listed, rate = bench.gpu.bandwidth_bytes_per_second, bench.values["bytes_per_second"]
    if listed is None:
        return None
    wrong = above("bytes_per_second", rate, listed * bench.margin("memory_bandwidth"), bench.gpu, "can move")
    if wrong and (bench.values.get("working_set_bytes") or GIB) <= cached_bytes(bench.gpu):
        return f"{wrong} The working set fits its cache."
    # Gathers are slow honestly, down to a small part of the rate.
    gathers = bench.values.get("access") == "gather"
    if not wrong and not gathers:
        wrong = small_unit("bytes_per_second", rate, listed, bench.limits.other_unit["bandwidth"])
    least = listed * (bench.limits.least_gather if gathers else bench.limits.least_bandwidth)
    return wrong or below("bytes_per_second", rate, least, bench.gpu, "moves")


def cached_bytes(gpu: Gpu) -> int:
    """Bytes that a repeated read may find in the cache instead of the memory."""
    return 2 * (gpu.l2_cache_bytes or 0)


def matmul_type(name: str) -> str:
    """The type that a device multiplies, whatever a library calls it."""
    folded = name.casefold()
    return _MATMUL_TYPES.get(folded, folded)


def matmul_rate(bench: Bench) -> str | None:
    """Faster than the peak of that type, far slower, or another unit."""
    name = matmul_type(bench.values["dtype"])
    peaks, rate = bench.gpu.peaks, bench.values["flops_per_second"]
    if not peaks:
        return None
    # A type the device has no unit for runs through another one.
    listed = peaks.get(name) or max(peaks.values())
    limit = listed * bench.margin("matmul_rate")
    return (
        above("flops_per_second", rate, limit, bench.gpu, f"multiplies in {name[:20]}")
        or small_unit("flops_per_second", rate, listed, bench.limits.other_unit["matmul"])
        or below("flops_per_second", rate, listed * bench.limits.least_matmul, bench.gpu, "multiplies")
    )


def all_reduce(bench: Bench) -> str | None:
    """Each rank reads its own part and writes the result: links may beat their list, memory does not."""
    listed, values = bench.gpu.bandwidth_bytes_per_second, bench.values
    if listed is None:
        return None
    # What fits a cache is read from there, some times as fast.
    faster = bench.limits.cache_speed if values["bytes"] <= cached_bytes(bench.gpu) else 1.0
    reach = listed * bench.margin("memory_bandwidth") * faster
    return above("bytes / seconds", values["bytes"] / values["seconds"], reach, bench.gpu, "can move")
