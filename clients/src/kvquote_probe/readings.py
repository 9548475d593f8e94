"""What a measurement gives, before it belongs to a probe: the kinds and values of the wire contract, nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_SAMPLES = 200


@dataclass(frozen=True)
class Reading:
    """One measured thing. Everything in it is JSON: numbers, flags, texts, lists and objects of them.

    `kind` and `values` are those of the contract (bytes and tokens as integers, seconds as floats, sizes per GPU);
    `setup` has the names of a question; `samples` are raw readings of the first value, thinned to 200 where there are
    more. `gpu` is null where a remote engine does not tell its device, and `software` adds to what `rows` knows:
    `torch`, `runtime`, `engine`, `engine_version`.
    """

    kind: str
    values: Mapping[str, Any]
    setup: Mapping[str, Any] | None = None
    samples: tuple[float, ...] = ()
    gpu: Mapping[str, Any] | None = None
    software: Mapping[str, Any] | None = None


def thinned(samples: tuple[float, ...], most: int = MOST_SAMPLES) -> list[float]:
    """At most so many samples, evenly picked, the first and the last among them."""
    if len(samples) <= most:
        return list(samples)
    step = (len(samples) - 1) / (most - 1)
    return [samples[round(index * step)] for index in range(most)]
