"""The rules of one release of TensorRT-LLM, each a figure or a choice that the catalog gives its evidence for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum, unique
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.ranks.drafts import DraftRule

Span = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Tokens and sequences of a batch where nobody sets them."""

    tokens: int
    sequences: int


@dataclass(frozen=True, slots=True)
class BlockRule:
    """Tokens of a block, and those that may be asked for."""

    tokens: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SamplerRule:
    """Bytes of an element of [sequences, vocabulary] that sampling keeps: low, middle and high."""

    element_bytes: tuple[float, float, float]


@unique
class StatePlace(StrEnum):
    """What the states of a full batch are taken out of."""

    BESIDE = "beside"
    SHARE = "share"
    POOL = "pool"


@dataclass(frozen=True, slots=True)
class StateRule:
    """Families whose recurrent states are kept, of each sequence of a full batch, and bytes of their elements.

    States are there before the cache is sized (`beside`), out of its share (`share`), or in a `pool` that grows with
    the share where a batch of half the longest length would not fill it. `spare` slots are kept beside the batch's;
    `stages` says whether each stage of a pipeline keeps those of as many batches as there are stages, `named` whether
    a type that the checkpoint names for its states holds. `wide` are mixers whose states are in 32 bits in any case.
    """

    since: str
    families: frozenset[str]
    element_bytes: int
    place: StatePlace = StatePlace.BESIDE
    spare: int = 0
    stages: bool = False
    named: bool = False
    wide: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class MissingCode:
    """The architecture that a release has no model code for, and the first release that has; None where none has.

    `quoted` says whether how that one keeps states is described.
    """

    architecture: str
    since: str | None
    quoted: bool


@dataclass(frozen=True, slots=True)
class Constants:
    """Figures that no release has changed so far; spans are low, middle and high, in bytes."""

    runtime: Span
    links: dict[str, Span]
    hidden_multiple: int
    element_bytes: int
    forward_low: float
    forward_high: float
    cache_types: frozenset[str]
    weight_types: dict[str, str]
    drafts: DraftRule


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Everything that depends on the release; itself a key of what follows from it."""

    name: str
    note: str | None
    fraction: float
    batch: BatchRule
    blocks: BlockRule
    sampler: SamplerRule
    states: StateRule
    missing: Mapping[str, MissingCode]
    constants: Constants
