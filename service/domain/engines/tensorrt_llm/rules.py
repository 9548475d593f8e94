"""The rules of one release of TensorRT-LLM, each a figure or a choice that the catalog gives its evidence for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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


@dataclass(frozen=True, slots=True)
class StateRule:
    """Families whose recurrent states are kept, of each sequence of a full batch, and bytes of their elements."""

    families: frozenset[str]
    element_bytes: int


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
    constants: Constants
