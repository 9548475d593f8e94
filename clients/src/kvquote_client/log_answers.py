"""What `/logs` answers: an engine's start-up log in the question's words, beside what would have been quoted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from kvquote_client.answers import FitAnswer
from kvquote_client.reading import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class LogEngine(Answer):
    """The engine that wrote the log."""

    name: str
    version: str | None


@dataclass(frozen=True)
class LogSaid(Answer):
    """What the log says; None where it does not, or where it cannot be told for certain.

    Names of models, GPUs and number formats are as printed.
    """

    model: str | None
    compute_dtype: str | None
    weight_dtype: str | None
    kv_dtype: str | None
    gpu: str | None
    gpu_count: int | None
    tensor_parallel: int | None
    pipeline_parallel: int | None
    data_parallel: int | None
    context_limit_tokens: int | None
    memory_utilization: float | None
    max_batched_tokens: int | None
    max_sequences_limit: int | None
    block_tokens: int | None
    blocks: int | None
    kv_capacity_tokens: int | None
    max_concurrency: float | None
    concurrency_context_tokens: int | None
    sampler_backend: str | None
    memory_bytes: int | None
    free_before_bytes: int | None
    free_after_bytes: int | None
    budget_bytes: int | None
    weight_bytes: int | None
    activation_bytes: int | None
    other_bytes: int | None
    graph_bytes: int | None
    graph_estimate_bytes: int | None
    kv_cache_bytes: int | None
    state_bytes: int | None
    draft_cache_bytes: int | None
    gpu_layers: int | None
    parallel_slots: int | None
    attention_backend: str | None


@dataclass(frozen=True)
class LogRank(Answer):
    """What one rank, or one device, said of itself, by the names of `LogSaid`."""

    worker: str
    rank: int | None
    replica: int | None
    said: Mapping[str, Any]


@dataclass(frozen=True)
class LogRefusal(Answer):
    """Why the engine did not start."""

    kind: str
    line: int
    needed_bytes: int | None
    available_bytes: int | None
    context_limit_tokens: int | None
    max_context_tokens: int | None


@dataclass(frozen=True)
class LogStart(Answer):
    """Which start of the log was read; `number` is how many it holds."""

    number: int
    first_line: int | None
    last_line: int | None
    lines: int


@dataclass(frozen=True)
class LogProblem(Answer):
    """Why there is no quote beside the log."""

    code: str
    title: str
    detail: str
    errors: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class LogComparison(Answer):
    """Bytes of one part; the difference is quoted less said, and `relative` is its share of what was said.

    `worker` is the process or the device whose figure it is, None where its line names none.
    """

    part: str
    worker: str | None
    said_bytes: int | None
    quoted_bytes: int
    difference_bytes: int | None
    relative: float | None


@dataclass(frozen=True)
class LogCount(Answer):
    """A count that both have; the difference is quoted less said, and `relative` is its share of what was said."""

    name: str
    said: float
    quoted: float
    difference: float
    relative: float | None


@dataclass(frozen=True)
class LogLeftOut(Answer):
    """What was not taken from the log, and why."""

    what: str
    reason: str
    line: int | None


@dataclass(frozen=True)
class LogAnswer(Answer):
    """What a log says, the question it implies, and the quote of that; `unquoted` says why where there is none.

    `said_at` has the line, the worker and the rounding of each value. `taken` says where each name of the question came
    from: `log` where the log says it.
    """

    essential: ClassVar[tuple[str, ...]] = ("engine", "said")

    engine: LogEngine
    said: LogSaid
    said_at: Mapping[str, Any]
    per_rank: tuple[LogRank, ...]
    refusal: LogRefusal | None
    settings: Mapping[str, Any]
    start: LogStart
    question: Mapping[str, Any]
    taken: Mapping[str, str]
    quote: FitAnswer | None
    unquoted: LogProblem | None
    comparison: tuple[LogComparison, ...]
    counts: tuple[LogCount, ...]
    left_out: tuple[LogLeftOut, ...]
    warnings: tuple[str, ...]
    catalog_revision: int
