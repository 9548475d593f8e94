"""The device that is measured: CUDA, ROCm or, for tests and small machines, the CPU. Used inside experiments only.

Torch serves ROCm under the names of CUDA, so that both are one class. No setting of a card is ever changed.
"""

from __future__ import annotations

import ctypes
import os
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import smi

_PAGE_BYTES = 4096
_M_MMAP_THRESHOLD = -3
_MAPPED_FROM_BYTES = 64 * 1024
"""Tensors from this size on are mappings of their own, whose pages are counted as soon as they are written."""
_in_name = re.compile(r" MIG (\S+)$").search
_OUT_OF_MEMORY = (
    *("out of memory", "can't allocate memory", "cannot allocate memory", "ALLOC_FAILED", "std::bad_alloc"),
    "could not create a primitive",  # oneDNN, where there is no room for the code that it writes
)
_INFINITY_CACHE_MIB = {"gfx942": 256, "gfx950": 256, "gfx1030": 128, "gfx1100": 96, "gfx1201": 64}
"""AMD's last-level cache lies behind the L2, which is what its runtime tells (AMD's product pages, by architecture)."""

_AMD_DRIVER = Path("/sys/module/amdgpu/version")
IDLE_BYTES = 3 << 29
"""1.5 GiB. An unused card has 0.3 to 0.9 GiB gone with our own context open, where it was looked at (probe 2.1)."""


class Device(ABC):
    """What all devices answer; sizes in bytes, times in seconds."""

    kind: ClassVar[str]
    unified = False
    """Whether a card shares the machine's memory."""

    def __init__(self, place: str) -> None:
        self.place = place
        """What torch calls it: `cpu`, `cuda:0`."""

    @abstractmethod
    def gpu(self) -> dict[str, Any]:
        """The part `gpu` of a row."""

    @abstractmethod
    def software(self) -> dict[str, str]:
        """The part `software` of a row, as far as torch knows it."""

    @abstractmethod
    def memory(self) -> tuple[int, int]:
        """Bytes free and in total, as the driver says."""

    @abstractmethod
    def held_bytes(self) -> int:
        """Bytes in use as the driver says, of the card, or of this process on the CPU; to be compared, not believed."""

    @abstractmethod
    def cache_bytes(self) -> int:
        """Bytes of the last-level cache; 0 where nobody says."""

    @abstractmethod
    def synchronize(self) -> None:
        """Wait until all that was asked is done."""

    @abstractmethod
    def seconds(self, work: Callable[[], Any]) -> float:
        """How long one run of `work` takes on the device."""

    @abstractmethod
    def identity(self) -> str | None:
        """What the driver's tool knows the card by; stays on this machine."""

    def counters(self) -> dict[str, int]:
        """What torch's allocator counts, in bytes; empty where it does not."""
        return {}

    def allocate_afresh(self) -> None:
        """From now on take memory for tensors from the system, not from what was given back before."""
        return

    def card(self) -> smi.Card:
        """What the driver's tool says."""
        return smi.look(self.identity())


class Cpu(Device):
    """The machine's own memory; `limit_bytes` stands for a smaller one."""

    kind = "cpu"

    def __init__(self, place: str = "cpu", limit_bytes: int | None = None) -> None:
        super().__init__(place)
        self._limit_bytes = limit_bytes

    def gpu(self) -> dict[str, Any]:
        """A device that nothing is learned from."""
        return {"name": "cpu", "memory_bytes": self.memory()[1], "count": 1}

    def software(self) -> dict[str, str]:
        """The part `software` of a row."""
        import torch

        return {"torch": torch.__version__, "runtime": "cpu"}

    def memory(self) -> tuple[int, int]:
        """What is available, within the limit of a container or of the caller."""
        fields = _fields(Path("/proc/meminfo"))
        free, total = fields["MemAvailable"], fields["MemTotal"]
        bound = min(total, *(limit for limit in (self._limit_bytes, _cgroup_limit()) if limit is not None), total)
        return min(free, bound), bound

    def held_bytes(self) -> int:
        """Pages of its own that this process has written to."""
        return _fields(Path("/proc/self/smaps_rollup"))["Anonymous"]

    def allocate_afresh(self) -> None:
        """Every large tensor becomes a mapping of its own."""
        library = ctypes.CDLL(None)
        if hasattr(library, "mallopt"):  # glibc
            library.mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES)
            library.malloc_trim(0)

    def cache_bytes(self) -> int:
        """Bytes of the last-level cache."""
        sizes = [_cpu_cache(path) for path in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
        return max(sizes, default=0)

    def synchronize(self) -> None:
        """Everything is done when it returns."""
        return

    def seconds(self, work: Callable[[], Any]) -> float:
        """By the wall clock."""
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def identity(self) -> str | None:
        """None: no tool knows it."""
        return None


class Cuda(Device):
    """A card of NVIDIA or AMD through torch.cuda."""

    def __init__(self, place: str) -> None:
        import torch

        super().__init__(place)
        if not torch.cuda.is_available():
            raise MeasureError(f"torch {torch.__version__} sees no GPU; --device cpu measures this machine's memory.")
        self._cuda = torch.cuda
        self._version = torch.version
        self._torch_version = torch.__version__
        index = int(place.partition(":")[2] or 0)
        if index >= torch.cuda.device_count():
            raise MeasureError(f"There is no {place}; torch sees {torch.cuda.device_count()} devices.")
        # Old releases of torch asked the current device whatever was named, so it is made the current one (probe 2.2).
        torch.cuda.set_device(index)
        self._index = index
        self._properties = torch.cuda.get_device_properties(index)

    @property
    def kind(self) -> str:  # type: ignore[override]  # by what torch was built for
        """By what torch was built for."""
        return "hip" if self._version.hip else "cuda"

    def gpu(self) -> dict[str, Any]:
        """The part `gpu` of a row."""
        name = self._properties.name
        slice_of = _in_name(name)
        own = None if self._version.hip else f"{self._properties.major}.{self._properties.minor}"
        return {
            "name": name,
            "memory_bytes": self.memory()[1],
            "compute_capability": own or self._architecture or None,
            "driver": self.card().driver if not self._version.hip else _read(_AMD_DRIVER),
            "mig_profile": slice_of[1] if slice_of else None,
            "count": 1,
        }

    def software(self) -> dict[str, str]:
        """The part `software` of a row."""
        runtime = f"rocm {self._version.hip}" if self._version.hip else f"cuda {self._version.cuda}"
        return {"torch": self._torch_version, "runtime": runtime}

    def memory(self) -> tuple[int, int]:
        """As cudaMemGetInfo says."""
        free, total = self._cuda.mem_get_info(self._index)
        if self.unified:
            # Free leaves out page cache that the system gives back when asked (probe 2.3).
            free = max(free, min(total, _fields(Path("/proc/meminfo"))["MemAvailable"]))
        return free, total

    def held_bytes(self) -> int:
        """Of the whole card: nobody else may use it meanwhile."""
        self.synchronize()
        free, total = self._cuda.mem_get_info(self._index)
        return int(total - free)

    def cache_bytes(self) -> int:
        """Bytes of the last-level cache."""
        behind = _INFINITY_CACHE_MIB.get(self._architecture, 0) << 20 if self._version.hip else 0
        return max(behind, int(getattr(self._properties, "L2_cache_size", 0)))

    @property
    def _architecture(self) -> str:
        """AMD's name of it, without its features."""
        return str(getattr(self._properties, "gcnArchName", "")).partition(":")[0]

    def synchronize(self) -> None:
        """Wait."""
        self._cuda.synchronize(self._index)

    def seconds(self, work: Callable[[], Any]) -> float:
        """Between two events on the stream."""
        start, end = self._cuda.Event(enable_timing=True), self._cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) / 1e3

    def identity(self) -> str | None:
        """The UUID; none on ROCm. A slice's begins with `MIG-`, whatever torch puts before it."""
        uuid = getattr(self._properties, "uuid", None)
        if uuid is None or self._version.hip:
            return None
        bare = str(uuid).removeprefix("GPU-").removeprefix("MIG-")
        return f"{'MIG' if _in_name(self._properties.name) else 'GPU'}-{bare}"

    def counters(self) -> dict[str, int]:
        """Bytes by torch's own count."""
        stats: Mapping[str, int] = self._cuda.memory_stats(self._index)
        wanted = ("requested", "allocated", "reserved")
        return {name: int(stats.get(f"{name}_bytes.all.current", 0)) for name in wanted}

    @property
    def unified(self) -> bool:  # type: ignore[override]  # as the driver says
        """Whether the card shares the machine's memory."""
        return bool(getattr(self._properties, "is_integrated", False))


def opened(arguments: Mapping[str, Any]) -> Device:
    """The device that an experiment's arguments name: `device`, and `limit_bytes` on the CPU."""
    place = arguments.get("device") or "auto"
    if place == "auto":
        import torch

        place = "cuda:0" if torch.cuda.is_available() else "cpu"
    if place == "cpu":
        return Cpu(limit_bytes=arguments.get("limit_bytes"))
    if arguments.get("limit_bytes"):
        raise MeasureError("--limit-bytes stands for a smaller memory of the CPU; a card's share is --fraction.")
    if place.partition(":")[0] in {"cuda", "hip"} and place.partition(":")[2] in {"", *map(str, range(64))}:
        return Cuda(place.replace("hip", "cuda"))
    raise MeasureError(f"{place!r} is no device; one is cpu, cuda or cuda:1 (also on ROCm).")


def refuse_if_used(device: Device, *, shared: bool, own_bytes: int = 0) -> int:
    """Bytes that others hold there beside `own_bytes` of ours; refuses a card in use unless told that it is shared."""
    if device.kind == "cpu":
        return 0
    listed = smi.held_by_others(device.identity(), (os.getpid(), os.getppid()))
    # A container does not see who else is there, only that memory is gone. Of a memory that the system shares, its
    # own part is gone too.
    gone = 0 if device.unified else max(0, device.held_bytes() - own_bytes - IDLE_BYTES)
    others = max(listed or 0, gone)
    if others and not shared:
        raise MeasureError(
            f"Others hold {others / 2**30:.2f} GiB of {device.place}: measuring would disturb them and be wrong."
            " Free the card, or say --shared."
        )
    return others


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that memory ran out; libraries beside torch's allocator raise plain errors (probe 3.2)."""
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    words = str(error).lower()
    # On a slice, torch's allocator fails at asking NVML who else is there, which it does only where memory ran out.
    hidden = "nvml_success" in words and "cachingallocator" in words
    return isinstance(error, RuntimeError) and (hidden or any(text.lower() in words for text in _OUT_OF_MEMORY))


def refuse_slow_attention(device: Device) -> None:
    """On a card attention is fused or not at all: the plain path copies keys and values for each head of a group."""
    if device.kind != "cpu":
        import torch

        torch.backends.cuda.enable_math_sdp(False)  # noqa: FBT003 - as torch has it


def has_no_kernel(error: BaseException) -> bool:
    """Whether an error means that no fused attention takes these heads."""
    return isinstance(error, RuntimeError) and "no available kernel" in str(error).lower()


def touch(storage: Any) -> None:  # noqa: ANN401  # torch.Tensor, which is not imported here
    """Write to every page, so that what was asked for is really backed."""
    import torch

    if storage.numel():
        storage.view(torch.uint8).flatten()[::_PAGE_BYTES] = 1


def _fields(path: Path) -> dict[str, int]:
    """Bytes by name from one of the kernel's tables in kB."""
    lines = (line.split() for line in path.read_text(encoding="utf-8").splitlines())
    return {parts[0].rstrip(":"): int(parts[1]) * 1024 for parts in lines if parts[-1] == "kB"}


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip() or None
    except (OSError, ValueError):
        return None


def _cgroup_limit() -> int | None:
    for name in ("memory.max", "memory/memory.limit_in_bytes"):
        try:
            found = int(Path("/sys/fs/cgroup", name).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        return found if found < 1 << 60 else None
    return None


def _cpu_cache(path: Path) -> int:
    try:
        size = path.read_text(encoding="utf-8").strip()
    except OSError:
        return 0
    return int(size.rstrip("KM")) * {"K": 1 << 10, "M": 1 << 20}.get(size[-1:], 1)
