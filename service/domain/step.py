"""The time of one decode step, term by term."""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """Seconds of one decode step, term by term, each summed over the pipeline's stages.

    `cache` is reading it and writing what the step adds. `spread` is the share that the interval takes to either side.
    `reading` and `multiplying` are what the matrices take of it, each where it is the longer; `weights` and `compute`
    what reading and multiplying alone would take. `drafting` is what of all of them the passes of a drafter take,
    `late` what sequences took more than quoted on some servers: the interval alone has it.
    """

    weights: float
    cache: float
    compute: float
    reading: float
    multiplying: float
    communication: float
    overhead: float
    spread: float
    drafting: float = 0.0
    late: float = 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Low and high."""
        return self.seconds * max(0.0, 1 - self.spread), self.seconds * (1 + self.spread) + self.late

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.reading + self.multiplying + self.cache + self.communication + self.overhead

    def scaled(self, factor: float, spread: float) -> Step:
        """Every term that many times as long."""
        return Step(
            weights=factor * self.weights,
            cache=factor * self.cache,
            compute=factor * self.compute,
            reading=factor * self.reading,
            multiplying=factor * self.multiplying,
            communication=factor * self.communication,
            overhead=factor * self.overhead,
            spread=spread,
            drafting=factor * self.drafting,
        )

    def with_passes(self, passes: Step) -> Step:
        """The step with a drafter's passes before it, whose spread is their own."""
        seconds, drafting = self.seconds, passes.seconds
        return Step(
            weights=self.weights + passes.weights,
            cache=self.cache + passes.cache,
            compute=self.compute + passes.compute,
            reading=self.reading + passes.reading,
            multiplying=self.multiplying + passes.multiplying,
            communication=self.communication + passes.communication,
            overhead=self.overhead + passes.overhead,
            spread=(self.spread * seconds + passes.spread * drafting) / (seconds + drafting),
            drafting=drafting,
            late=self.late,
        )

    @property
    def memory(self) -> float:
        """Reading alone, weights and cache."""
        return self.weights + self.cache

    @property
    def bound(self) -> str:
        """The part that takes longest."""
        parts = {
            "memory": self.memory,
            "compute": self.compute,
            "communication": self.communication,
            "overhead": self.overhead,
        }
        return max(parts, key=lambda name: parts[name])

    @property
    def shares(self) -> dict[str, float]:
        """What each term is of the seconds: they add up to 1."""
        seconds = self.seconds
        return {
            "weights": self.reading / seconds,
            "compute": self.multiplying / seconds,
            "cache": self.cache / seconds,
            "communication": self.communication / seconds,
            "overhead": self.overhead / seconds,
        }
