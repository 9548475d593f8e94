"""The ledger of one device: parts in whole bytes that add up to its memory, or to more where it is overcommitted."""

from __future__ import annotations

from typing import NamedTuple


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

    @property
    def held_bytes(self) -> int:
        """Everything that is neither weights nor cache."""
        return self.outside_bytes + self.others_bytes + self.reserve_bytes

    def pool(self, weight_bytes: int) -> int:
        """Bytes of the cache beside those weights; never negative."""
        if self.pool_bytes is not None:
            return self.pool_bytes
        return max(0, self.memory_bytes - self.held_bytes - weight_bytes)

    def overcommitted(self, weight_bytes: int) -> int:
        """Bytes by which the parts exceed the device, 0 where they fit."""
        fixed = self.held_bytes + weight_bytes + (self.pool_bytes or 0)
        return max(0, fixed - self.memory_bytes)

    def unused(self, weight_bytes: int) -> int:
        """Bytes that nothing takes: what a fixed cache size leaves."""
        if self.pool_bytes is None:
            return 0
        return max(0, self.memory_bytes - self.held_bytes - weight_bytes - self.pool_bytes)
