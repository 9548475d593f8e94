"""What measurements taught, as quotes look it up: quantities on a ladder of rungs, the finest that holds first.

A rung is named by what its measurements have in common, such as `gpu+engine+version`. What it holds is how far
measured values lie from what the catalog alone says: a rung that taught nothing changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum, unique
from functools import cached_property
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

_LONGEST_WORD: Final = 200


@unique
class Quantity(StrEnum):
    """What is learned. Sizes are bytes on a GPU beyond the catalog's, the others shares beyond the catalog's."""

    VISIBLE_MEMORY = "visible_memory"
    RESERVE = "reserve"
    ACTIVATIONS = "reserve.activations"
    GRAPHS = "reserve.graphs"
    RUNTIME = "reserve.runtime"
    WEIGHTS = "weights"
    BYTES_PER_TOKEN = "bytes_per_token"  # noqa: S105  # tokens of a text
    BANDWIDTH = "bandwidth"
    COMPUTE = "compute"
    ALL_REDUCE_LATENCY = "all_reduce_latency"
    ALL_REDUCE_RATE = "all_reduce_rate"
    STEP = "step"

    @property
    def unit(self) -> str:
        """What estimates and spreads of it are in."""
        return "bytes" if self in _SIZES else "share"

    @property
    def resolution(self) -> float:
        """A difference that means nothing: what starts of one engine on one card differ by (accounting 9.2)."""
        return _RESOLUTION.get(self, _SMALL_SHARE)


_SIZES: Final = frozenset(
    {
        *(Quantity.VISIBLE_MEMORY, Quantity.RESERVE, Quantity.ACTIVATIONS, Quantity.GRAPHS, Quantity.RUNTIME),
        Quantity.WEIGHTS,
    }
)
_MIB: Final = 1 << 20
_SMALL_SHARE: Final = 0.01
_RESOLUTION: Final[Mapping[Quantity, float]] = {
    **dict.fromkeys(_SIZES, 100 * _MIB),
    Quantity.VISIBLE_MEMORY: 2 * _MIB,
    Quantity.BYTES_PER_TOKEN: 0.001,
}


@dataclass(frozen=True, slots=True)
class Scope:
    """Under which circumstances something was measured, or is asked; None where nobody said.

    `batch` are the sequences of a step, or tokens and sequences of the batches that an engine is started for.
    """

    gpu: str | None = None
    architecture: str | None = None
    driver: str | None = None
    engine: str | None = None
    version: str | None = None
    layout: str | None = None
    model_class: str | None = None
    dtype: str | None = None
    ranks: str | None = None
    batch: str | None = None

    def key(self, rung: tuple[str, ...]) -> str | None:
        """What names this scope on a rung; None where it lacks one of the rung's words."""
        words = [getattr(self, name) for name in rung]
        if None in words:
            return None
        return " ".join(f"{name}={_word(word)}" for name, word in zip(rung, words, strict=True))

    def document(self) -> dict[str, str]:
        """The words that are known, by name."""
        known = ((own.name, getattr(self, own.name)) for own in fields(self))
        return {name: word for name, word in known if word is not None}


def _word(text: str) -> str:
    """A word of a key: probes write drivers and versions as they like."""
    return "_".join(text.split())[:_LONGEST_WORD]


Rung = tuple[str, ...]
_OF_ENGINE: Final[tuple[Rung, ...]] = (
    ("gpu", "engine", "version", "layout", "model_class", "batch"),
    ("gpu", "engine", "version", "layout", "model_class"),
    ("gpu", "engine", "version", "layout"),
    ("gpu", "engine", "version"),
    ("gpu", "engine"),
    ("architecture", "engine"),
)
LADDERS: Final[Mapping[Quantity, tuple[Rung, ...]]] = {
    **dict.fromkeys(
        (Quantity.RESERVE, Quantity.ACTIVATIONS, Quantity.GRAPHS, Quantity.RUNTIME, Quantity.WEIGHTS), _OF_ENGINE
    ),
    Quantity.VISIBLE_MEMORY: (("gpu", "driver"), ("gpu",)),
    Quantity.BYTES_PER_TOKEN: (("gpu", "engine", "model_class"), ("engine", "model_class")),
    Quantity.BANDWIDTH: (("gpu", "driver"), ("gpu",), ("architecture",)),
    Quantity.COMPUTE: (("gpu", "dtype"), ("architecture", "dtype")),
    Quantity.ALL_REDUCE_LATENCY: (("gpu", "ranks"), ("architecture", "ranks")),
    Quantity.ALL_REDUCE_RATE: (("gpu", "ranks"), ("architecture", "ranks")),
    Quantity.STEP: (
        ("gpu", "engine", "version", "layout", "model_class", "batch"),
        ("gpu", "engine", "version", "layout", "model_class"),
        ("gpu", "engine", "version"),
        ("gpu", "engine"),
    ),
}
"""The rungs of each quantity, the finest first."""


def rung_name(rung: Rung) -> str:
    """How answers name a rung."""
    return "+".join(rung)


@dataclass(frozen=True, slots=True)
class Learned:
    """What one rung knows of one quantity, in the quantity's unit and beyond what the catalog says.

    `estimate` is the median over probes, drawn toward the rung above; of what was not measured yet nine tenths are
    expected between `low` and `high`. `measured` is the median as it was measured. Errors are those of what was left
    out in turn, by the catalog alone and with what the others taught; `refusal` says why the rung is not used, None
    where it is. `seen` are, by name, circumstances in which its measurements differ.
    """

    quantity: Quantity
    rung: str
    key: str
    scope: Mapping[str, str]
    estimate: float
    low: float
    high: float
    measured: float
    measurements: int
    probes: int
    outliers: int
    newest: datetime
    seen: Mapping[str, tuple[str, ...]]
    error_before: float | None
    error_after: float | None
    refusal: str | None

    @property
    def usable(self) -> bool:
        """Whether quotes may use it."""
        return self.refusal is None

    @property
    def own(self) -> bool:
        """Whether it is of just the circumstances that were asked for: the finest rung."""
        return self.rung == rung_name(LADDERS[self.quantity][0])

    @property
    def versions(self) -> tuple[str, ...]:
        """Releases that were measured."""
        return self.seen.get("version", ())

    @property
    def drivers(self) -> tuple[str, ...]:
        """Drivers that were measured."""
        return self.seen.get("driver", ())

    def reaches(self, scope: Scope) -> bool:
        """Whether the scope is like what was measured, or unlike it only where measurements differ from each other.

        What nobody varied was not put to the proof: a fleet of one release says nothing about the next.
        """
        return all(
            word is None or len(words) > 1 or word in words
            for word, words in ((getattr(scope, name), words) for name, words in self.seen.items())
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """Everything that was learned at one revision, from rows compared with the catalog of `catalog_revision`."""

    revision: int
    catalog_revision: int
    values: Mapping[tuple[Quantity, str], Learned]
    changed: frozenset[str] = frozenset()
    """Devices and engines whose entries are newer than that catalog."""

    def find(self, quantity: Quantity, scope: Scope) -> Learned | None:
        """The finest rung of the scope that may be used; none of what the catalog has changed since."""
        if not self.values or self.is_outdated(scope):
            return None
        return next((found for found in self.ladder(quantity, scope) if found.usable and found.reaches(scope)), None)

    @cached_property
    def _places(self) -> frozenset[tuple[Quantity, str | None, str | None]]:
        return frozenset(
            (value.quantity, value.scope.get("gpu") or value.scope.get("architecture"), value.scope.get("engine"))
            for value in self.values.values()
        )

    def knows(self, quantity: Quantity, scope: Scope) -> bool:
        """Whether anything was learned of that engine on such a device, whatever else it depends on."""
        places = self._places
        return (quantity, scope.gpu, scope.engine) in places or (quantity, scope.architecture, scope.engine) in places

    def is_outdated(self, scope: Scope) -> bool:
        """Whether rows of the scope were compared with what the catalog no longer says."""
        return scope.gpu in self.changed or scope.engine in self.changed

    def ladder(self, quantity: Quantity, scope: Scope) -> Iterator[Learned]:
        """Every rung of the scope that knows something, the finest first."""
        for rung in LADDERS[quantity]:
            key = scope.key(rung)
            found = None if key is None else self.values.get((quantity, key))
            if found is not None:
                yield found


NOTHING_LEARNED: Final = Calibration(0, 0, {})
