"""The ledger of one device: parts in whole bytes that add up to its memory, or to more where it is overcommitted."""

from __future__ import annotations

from typing import NamedTuple


class Correction(NamedTuple):
    """What probes measured of a reserve beyond its model, in bytes on a GPU, negative where it takes less.

    By `less` and `more` their figures differ from it; of no probes, there is nothing to correct. `own` are figures of
    just these circumstances, and not of such as were found to be like them.
    """

    bytes: int = 0
    less: float = 0.0
    more: float = 0.0
    probes: int = 0
    rung: str = ""
    own: bool = False

    def spread(self, measured: float, modelled: float) -> float:
        """By how much the reserve may be off: as the probes' figures are, the model's spread being one probe more.

        Figures of other circumstances widen an interval, and never narrow it.
        """
        return blended(self.probes, measured, modelled) if self.own else max(measured, modelled)

    @property
    def basis(self) -> str:
        """What an interval rests on that takes it into account."""
        said = f"nine tenths of what {self.probes} probes measured ({self.rung})"
        return f"{said}, the model's own spread {'being one probe more' if self.own else 'where that is wider'}"

    @property
    def note(self) -> str:
        """Where it comes from, in words."""
        return f"{self.bytes:+,} B that {self.probes} probes measured beyond it ({self.rung})"


UNCORRECTED = Correction()


def blended(probes: int, measured: float, modelled: float) -> float:
    """A measured spread with the modelled one as one probe more."""
    return (probes * measured + modelled) / (probes + 1)


class Budget(NamedTuple):
    """What the question and the device give, per device and in bytes, before weights and cache are placed.

    `outside_bytes` is what utilization holds back, `others_bytes` what other processes hold, `pool_bytes` a cache size
    that the question fixed (None takes what is left).
    """

    memory_bytes: int
    outside_bytes: int
    others_bytes: int
    reserve_bytes: int
    pool_bytes: int | None
    correction: Correction = UNCORRECTED

    def free(self, weight_bytes: int) -> int:
        """Bytes beside those weights and everything that is not cache; negative by what exceeds the device."""
        return self.memory_bytes - self.outside_bytes - self.others_bytes - self.reserve_bytes - weight_bytes

    def placed(self, weight_bytes: int) -> tuple[int, int]:
        """Bytes of the cache beside those weights, and by how many all parts exceed the device; neither negative."""
        free, fixed = self.free(weight_bytes), self.pool_bytes
        if fixed is not None:
            return fixed, max(0, fixed - free)
        return (free, 0) if free >= 0 else (0, -free)

    def unused(self, weight_bytes: int) -> int:
        """Bytes that nothing takes: what a fixed cache size leaves."""
        return 0 if self.pool_bytes is None else max(0, self.free(weight_bytes) - self.pool_bytes)
