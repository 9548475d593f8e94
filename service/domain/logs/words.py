"""Our words for what start-up logs say, and what a reading of one holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from .forms import Value
from .settings import Plain

OF_THE_ENGINE = (
    *("model", "compute_dtype", "weight_dtype", "kv_dtype", "gpu", "gpu_count"),
    *("tensor_parallel", "pipeline_parallel", "data_parallel", "context_limit_tokens", "memory_utilization"),
    *("max_batched_tokens", "max_sequences_limit", "block_tokens", "blocks", "kv_capacity_tokens"),
    *("max_concurrency", "concurrency_context_tokens", "sampler_backend", "gpu_layers", "parallel_slots"),
    "attention_backend",
)
"""What a whole replica has once."""

OF_A_RANK = (
    *("memory_bytes", "free_before_bytes", "free_after_bytes", "budget_bytes", "weight_bytes", "activation_bytes"),
    *("other_bytes", "graph_bytes", "graph_estimate_bytes", "kv_cache_bytes", "state_bytes", "draft_cache_bytes"),
)
"""What each rank has: memory, what was free before and after the weights were loaded, what the engine may use of it,
what weights, the profiled pass, memory outside the framework's allocator, graphs, cache, recurrent states and the
cache of a drafter take."""

NAMES = (*OF_THE_ENGINE, *OF_A_RANK)
TEXTS = frozenset({"model", "compute_dtype", "weight_dtype", "kv_dtype", "gpu", "sampler_backend", "attention_backend"})
"""Those that are words; the others are numbers."""


class Said(NamedTuple):
    """A value, the number of its line, the process that said it, and how far the printed figure may be off."""

    value: Value
    line: int
    worker: str | None
    rounding: float = 0


class Rank(NamedTuple):
    """What one rank, or one device, said of itself."""

    worker: str
    rank: int | None
    replica: int | None
    said: Mapping[str, Said]


class LeftOut(NamedTuple):
    """A value that was not taken, and why; `line` is None where no line is to blame."""

    what: str
    reason: str
    line: int | None


class Refusal(NamedTuple):
    """Why the engine did not start; sizes in bytes, None where it does not say them."""

    kind: str
    line: int
    needed_bytes: int | None = None
    available_bytes: int | None = None
    context_limit_tokens: int | None = None
    max_context_tokens: int | None = None


class LogReading(NamedTuple):
    """What a log says of one start; `engine` is None where nothing in it is an engine's.

    `said` holds what is true of the engine and its limiting rank, under NAMES; `settings` the engine's settings by its
    own names, as printed. `begins` and `ends` are the lines of the start, `starts` how many there are.
    """

    engine: str | None
    version: str | None
    said: Mapping[str, Said]
    ranks: Sequence[Rank]
    settings: Mapping[str, Plain]
    nested_settings: Mapping[str, str]
    settings_whole: bool
    refusal: Refusal | None
    starts: int
    begins: int | None
    ends: int | None
    lines: int
    left_out: Sequence[LeftOut]
    warnings: Sequence[str]
    devices: Sequence[str] = ()
    """The names of all devices that hold a part of the model, in the engine's order, where it prints each of them."""


NOTHING = LogReading(
    engine=None,
    version=None,
    said={},
    ranks=(),
    settings={},
    nested_settings={},
    settings_whole=False,
    refusal=None,
    starts=0,
    begins=None,
    ends=None,
    lines=0,
    left_out=(),
    warnings=(),
)
"""What a log says in which no engine's line was found."""
