"""What `/traffic` answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kvquote_client.answers import Quoted
from kvquote_client.reading import Answer


@dataclass(frozen=True)
class KindTraffic(Answer):
    """What a step reads of one kind of cache."""

    kind: str
    bytes: int


@dataclass(frozen=True)
class StepShares(Answer):
    """What each part is of a step; together 1."""

    weights: float
    compute: float
    cache: float
    communication: float
    overhead: float


@dataclass(frozen=True)
class Step(Answer):
    """One decode step: the seconds between two tokens of a sequence."""

    seconds: float
    memory_seconds: float
    compute_seconds: float
    communication_seconds: float
    overhead_seconds: float
    bound: str
    shares: StepShares
    interval_seconds: tuple[float, ...]


@dataclass(frozen=True)
class Prefill(Answer):
    """The prompts run together: time in the model, without queue or HTTP."""

    tokens: int
    flops: int
    seconds: float | None
    interval_seconds: tuple[float, ...] | None
    bound: str | None
    chunk_tokens: int
    mixed_step_seconds: float | None
    scores_per_head: int
    scores_bytes_if_materialised: int
    scores_bytes_streaming: int


@dataclass(frozen=True)
class TrafficRank(Answer):
    """What the limiting rank reads in a step."""

    index: int
    pipeline_stage: int
    weight_traffic_bytes: int
    cache_traffic_bytes: int
    total_traffic_bytes: int


@dataclass(frozen=True)
class CurveRow(Answer):
    """One point of the grid that was asked for."""

    batch_size: int
    context_tokens: int
    fits: bool
    weight_traffic_bytes: int
    cache_traffic_bytes: int
    total_traffic_bytes: int
    weight_share: float
    cache_share: float
    step_seconds: float | None
    bound: str | None
    tokens_per_second: float | None


@dataclass(frozen=True)
class Efficiency(Answer):
    """The shares of the listed figures that a step was timed with."""

    bandwidth: float
    compute: float
    source: str
    measurements: int


@dataclass(frozen=True)
class Speculation(Answer):
    """What speculative decoding adds to a step, and what it yields."""

    method: str
    draft_passes: int
    verified_tokens: int
    weight_traffic_bytes: int
    cache_traffic_bytes: int
    draft_seconds: float | None
    tokens_per_step: float | None
    tokens_per_step_interval: tuple[float, ...]
    time_per_output_token_interval_seconds: tuple[float, ...] | None


@dataclass(frozen=True)
class Exchange(Answer):
    """Messages of one kind between the ranks of a replica."""

    kind: str
    messages: int
    bytes_per_message: int
    bytes: int
    seconds: float | None


@dataclass(frozen=True)
class TrafficAnswer(Quoted):
    """What one decode step reads and how long it takes, of one replica; `tokens_per_second` is the deployment's."""

    essential: ClassVar[tuple[str, ...]] = ("total_traffic_bytes",)

    batch_size: int
    context_tokens: int
    weight_traffic_bytes: int
    cache_traffic_bytes: int
    total_traffic_bytes: int
    weight_share: float
    cache_share: float
    other_traffic_bytes: int
    by_kind: tuple[KindTraffic, ...]
    crossover_batch: int | None
    ridge_batch: int | None
    ridge_batch_with_cache: int | None
    arithmetic_intensity: float
    step: Step | None
    tokens_per_second: float | None
    tokens_per_second_per_sequence: float | None
    time_per_output_token_seconds: float | None
    prefill: Prefill
    rank: TrafficRank
    curve: tuple[CurveRow, ...] | None
    efficiency: Efficiency | None
    speculation: Speculation | None = None
    communication: tuple[Exchange, ...] = ()
