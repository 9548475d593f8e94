"""Times of work on a device: warm, in random order, many times, and watched for clocks that drift (probe 3)."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Any, TypeVar

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure.device import Device, refuse_if_used

Work = Callable[[], Any]
Key = TypeVar("Key", bound=Hashable)

_SHORTEST_SECONDS = 2e-4
"""A run is repeated until it takes this long: one launch alone is mostly launching."""

_MOST_REPEATS = 1000
_STEADY = 0.05
"""A later half that differs by more says that clocks or neighbours changed meanwhile."""

_LIBRARIES_BYTES = 1 << 30
"""What libraries keep on the card beside torch's allocator: workspaces of multiplications, buffers of links."""


@dataclass(frozen=True)
class Effort:
    """How long to warm up, how many samples to take of each, and when to stop whatever is missing."""

    warm_up_seconds: float = 0.5
    samples: int = 30
    seconds: float = 60.0


@dataclass(frozen=True)
class Timing:
    """Seconds of one run, sample by sample in the order they were taken."""

    samples: tuple[float, ...]

    @property
    def seconds(self) -> float:
        """The median."""
        return median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """The tenth and the ninetieth percentile."""
        if len(self.samples) < 2:  # noqa: PLR2004  # quantiles needs two
            return self.samples[0], self.samples[0]
        tenths = quantiles(self.samples, n=10, method="inclusive")
        return tenths[0], tenths[-1]

    @property
    def drift(self) -> float:
        """By what share the later half is slower than the earlier."""
        half = len(self.samples) // 2
        return median(self.samples[half:]) / median(self.samples[:half]) - 1 if half else 0.0

    def told(self) -> dict[str, Any]:
        """For a row's values."""
        low, high = self.spread
        return {
            "least_seconds": min(self.samples),
            "p10_seconds": low,
            "p90_seconds": high,
            "drift": self.drift,
            "steady": abs(self.drift) <= _STEADY,
        }


def interleaved(
    device: Device, works: Mapping[Key, Work], effort: Effort, before: Work | None = None
) -> dict[Key, Timing]:
    """Time each work; every round runs all of them once in an order of its own, so that a drift hits all alike.

    `before` is done before each sample, untimed; a sample is then one run alone. Where time runs out between rounds,
    fewer samples are taken of all; never fewer than three.
    """
    repeats = {key: 1 if before else _repeats(device, work) for key, work in works.items()}
    _warm_up(device, works, effort.warm_up_seconds)
    taken: dict[Key, list[float]] = {key: [] for key in works}
    deadline = time.monotonic() + effort.seconds
    order, shuffle = list(works), random.Random(0).shuffle  # noqa: S311  # an order, no secret
    for number in range(effort.samples):
        if number >= 3 and time.monotonic() > deadline:  # noqa: PLR2004  # a median needs three
            break
        shuffle(order)
        for key in order:
            if before:
                before()
                device.synchronize()
            taken[key].append(device.seconds(_repeated(works[key], repeats[key])) / repeats[key])
    return {key: Timing(tuple(samples)) for key, samples in taken.items()}


def _repeats(device: Device, work: Work) -> int:
    work()
    device.synchronize()
    once = device.seconds(work)
    return max(1, min(_MOST_REPEATS, round(_SHORTEST_SECONDS / max(once, 1e-9))))


def _repeated(work: Work, times: int) -> Work:
    if times == 1:
        return work

    def run() -> None:
        for _ in range(times):
            work()

    return run


def _warm_up(device: Device, works: Mapping[Key, Work], seconds: float) -> None:
    """Until clocks have risen."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for work in works.values():
            work()
        device.synchronize()


class Watch:
    """Looks at a card before and after: what others hold, clocks, heat. Refuses what cannot be trusted."""

    def __init__(self, device: Device, *, shared: bool) -> None:
        self._device = device
        self._shared = shared
        refuse_if_used(device, shared=shared)
        self._before = device.card()

    def end(self) -> dict[str, Any]:
        """What to tell in a row.

        Raises:
            MeasureError: the card slowed itself down, or somebody else came.
        """
        own = self._device.counters().get("reserved", 0) + _LIBRARIES_BYTES
        refuse_if_used(self._device, shared=self._shared, own_bytes=own)
        after = self._device.card()
        if after.slowed:
            raise MeasureError("The card slows itself down (heat, power or its board): nothing it does now is typical.")
        told = {
            "clocks_mhz": {"before": self._before.clocks_mhz, "after": after.clocks_mhz} if after.clocks_mhz else None,
            "temperature_celsius": after.temperature_celsius,
            "power_limit_watts": after.power_limit_watts,
        }
        return {name: value for name, value in told.items() if value is not None}
