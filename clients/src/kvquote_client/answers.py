"""What `/fit` answers, and what `/traffic` says with the same words. Bytes and tokens are whole numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kvquote_client.reading import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class AnsweredModel(Answer):
    """The model that was quoted; `id` is None for a config."""

    id: str | None
    name: str
    parameters: float
    active_parameters: float | None
    context_tokens: int | None
    revision: int | None


@dataclass(frozen=True)
class AnsweredGpu(Answer):
    """The GPU that was quoted, of several kinds the one that fills first, and how many GPUs there are."""

    id: str
    name: str
    count: int
    revision: int


@dataclass(frozen=True)
class ListedGpu(Answer):
    """One of the cards that were listed."""

    id: str
    name: str
    revision: int


@dataclass(frozen=True)
class AnsweredEngine(Answer):
    """The engine whose rules were applied."""

    name: str
    version: str | None


@dataclass(frozen=True)
class UnderstoodCommand(Answer):
    """What was understood of an engine's command; flags that are no matter for memory are `ignored`."""

    engine: str
    program: str
    ignored: tuple[str, ...]
    set: Mapping[str, Any]


@dataclass(frozen=True)
class Quoted(Answer):
    """What both answers say: of what, from which data, and how they were come by.

    `question` holds every name after defaults, `taken` where each came from; `command` is None where none was asked.
    """

    question: Mapping[str, Any]
    taken: Mapping[str, str]
    command: UnderstoodCommand | None
    model: AnsweredModel
    gpu: AnsweredGpu | None
    gpus: tuple[ListedGpu, ...] | None
    engine: AnsweredEngine
    fits: bool
    assumptions: tuple[str, ...]
    warnings: tuple[str, ...]
    derivation: tuple[str, ...]
    catalog_revision: int
    calibration_revision: int


@dataclass(frozen=True)
class CacheKind(Answer):
    """What one kind of cache layer takes."""

    kind: str
    layers: int
    bytes_per_token: int
    window_tokens: int | None
    bytes_per_sequence: int


@dataclass(frozen=True)
class FitRank(Answer):
    """The rank that fills first."""

    index: int
    pipeline_stage: int
    kv_bytes_per_token: int
    kv_bytes_per_sequence: int


@dataclass(frozen=True)
class LedgerPart(Answer):
    """One part of the limiting rank's memory."""

    name: str
    bytes: int
    source: str
    note: str | None


@dataclass(frozen=True)
class Ledger(Answer):
    """The parts add up to `memory_bytes` + `overcommitted_bytes`."""

    memory_bytes: int
    overcommitted_bytes: int
    parts: tuple[LedgerPart, ...]


@dataclass(frozen=True)
class Roofline(Answer):
    """The batch at which decode turns compute-bound, and how far the ceiling is from it."""

    ridge_batch: int
    shortfall: float | None


@dataclass(frozen=True)
class Binding(Answer):
    """What the ceiling stops at, and what one sequence more would take."""

    constraint: str
    to_gain_one_sequence_bytes: int | None


@dataclass(frozen=True)
class Shortage(Answer):
    """Why it does not fit, on the limiting rank."""

    constraint: str
    needed_bytes: int
    available_bytes: int
    missing_bytes: int
    max_context_tokens: int | None
    nearest_change: Mapping[str, Any] | None


@dataclass(frozen=True)
class Lever(Answer):
    """One change to the question, and the ceiling that it would give."""

    move: str
    change: Mapping[str, Any]
    max_sequences: int
    gain: int


@dataclass(frozen=True)
class Interval(Answer):
    """From what to what the figures may be: pairs of the least and the most."""

    kv_cache_bytes: tuple[int, ...]
    max_concurrency: tuple[float, ...]
    max_sequences: tuple[int, ...]
    basis: str


@dataclass(frozen=True)
class LearnedPart(Answer):
    """One quantity that was learned: what is added to what the catalog alone says, and from what to what it was seen.

    The first is drawn toward the catalog where few measured, and may lie outside of the spread.
    """

    quantity: str
    rung: str
    beyond_catalog_bytes: int
    spread_bytes: tuple[int, ...]
    measurements: int
    probes: int
    versions: tuple[str, ...]
    drivers: tuple[str, ...]
    as_of: str


@dataclass(frozen=True)
class Calibration(Answer):
    """The measurements that stood behind the answer; `learned` is everything that it uses of them."""

    rung: str
    measurements: int
    probes: int
    spread_bytes: tuple[int, ...]
    as_of: str | None
    learned: tuple[LearnedPart, ...]


@dataclass(frozen=True)
class FitAnswer(Quoted):
    """How many sequences fit the whole deployment, and what takes the memory of the rank that fills first."""

    essential: ClassVar[tuple[str, ...]] = ("max_sequences", "ledger")

    max_sequences: int
    max_sequences_per_replica: int
    max_running_sequences: int
    max_concurrency: float
    max_context_tokens: int | None
    kv_capacity_tokens: int
    blocks: int | None
    block_tokens: int | None
    groups: int | None
    kv_bytes_per_token: int
    kv_bytes_per_sequence: int
    weight_bytes: int
    cache: tuple[CacheKind, ...]
    rank: FitRank
    ledger: Ledger
    roofline: Roofline | None
    binding: Binding
    shortage: Shortage | None
    levers: tuple[Lever, ...]
    interval: Interval
    calibration: Calibration | None
