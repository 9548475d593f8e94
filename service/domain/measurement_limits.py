"""What a measurement may be and still be believed: shares and margins beside what the catalog lists.

They are data of the entry of engine `none`, block `measurements`, with their evidence and date.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.scopes import NO_ENGINE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.question import Catalog


NAMES = frozenset(
    {
        *("margin", "memory_margin", "clock_ahead_seconds", "least_memory", "least_bandwidth", "least_gather"),
        *("least_matmul", "least_pool_bytes", "least_mixed_bits", "most_guessed_tokens", "cache_speed", "slow"),
        *("other_unit", "cache_rate", "pool_rate", "slope", "compared"),
    }
)
"""What the block has to say; one that an older release loaded may lack some."""


class Window(NamedTuple):
    """From the least to the most that a ratio may be."""

    least: float
    most: float

    def holds(self, ratio: float) -> bool:
        """Whether a ratio lies in it."""
        return self.least <= ratio <= self.most


class Limits(NamedTuple):
    """Shares of what is listed, but where a name says seconds, bytes, bits or tokens; `slow_` are of long steps.

    `margin` and `memory_margin` are how far above the list an honest figure may be; `cache_speed` is how many times as
    fast as its memory a device's cache may be. `slow_` hold above `slow_seconds`. The windows are of a figure to
    what it is compared with; those of `other_unit` (memory, bandwidth, matmul) hold once it is multiplied by 8 or a
    power of 1,024. The last four say what is compared at all: memory that is off by no more than `other_size`, products
    of sides from `least_matmul_side` on, sums up to the small (their latency) or from the large size on (their rate).
    """

    margin: float
    memory_margin: float
    clock_ahead_seconds: float
    least_memory: float
    least_bandwidth: float
    least_gather: float
    least_matmul: float
    least_pool_bytes: int
    least_mixed_bits: float
    most_guessed_tokens: int
    cache_speed: float
    slow_seconds: float
    slow_read: float
    slow_work: float
    other_unit: Mapping[str, Window]
    cache_rate: Window
    pool_rate: Window
    slope: Window
    other_size: float
    least_matmul_side: int
    small_message_bytes: int
    large_message_bytes: int


def from_facts(facts: Mapping[str, Any]) -> Limits:
    """Read the block `measurements`; raises KeyError or TypeError where a figure is missing."""
    slow, units, compared = facts["slow"], facts["other_unit"], facts["compared"]
    return Limits(
        margin=facts["margin"],
        memory_margin=facts["memory_margin"],
        clock_ahead_seconds=facts["clock_ahead_seconds"],
        least_memory=facts["least_memory"],
        least_bandwidth=facts["least_bandwidth"],
        least_gather=facts["least_gather"],
        least_matmul=facts["least_matmul"],
        least_pool_bytes=facts["least_pool_bytes"],
        least_mixed_bits=facts["least_mixed_bits"],
        most_guessed_tokens=facts["most_guessed_tokens"],
        cache_speed=facts["cache_speed"],
        slow_seconds=slow["seconds"],
        slow_read=slow["read"],
        slow_work=slow["work"],
        other_unit={name: Window(*units[name]) for name in ("memory", "bandwidth", "matmul")},
        cache_rate=Window(*facts["cache_rate"]),
        pool_rate=Window(*facts["pool_rate"]),
        slope=Window(*facts["slope"]),
        other_size=compared["other_size"],
        least_matmul_side=compared["least_matmul_side"],
        small_message_bytes=compared["small_message_bytes"],
        large_message_bytes=compared["large_message_bytes"],
    )


def limits_of(catalog: Catalog) -> Limits | None:
    """The limits of a catalog; raises as it does where it has no engine `none`."""
    found: Limits | None = getattr(catalog.engine(NO_ENGINE), "limits", None)
    return found
