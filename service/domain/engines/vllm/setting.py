"""What is asked of the engine: a scenario's sizes and its own settings, filled in by the release's defaults."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.ledger import UNCORRECTED, Correction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.domain.architecture import Architecture
    from service.domain.model import Model
    from service.domain.parallel import Layout
    from service.domain.precision import CacheFormat, WeightFormat


@dataclass(frozen=True, slots=True)
class Device:
    """What of a GPU decides how the engine runs on it; the capability is None where nobody knows it."""

    id: str
    name: str
    vendor: str
    capability: float | None
    link_bytes_per_second: float
    """Of its own link to other cards; 0 where it has none or nobody knows."""
    unified: bool = False
    types: frozenset[str] = frozenset()
    """Number types it multiplies; empty where they are not known."""

    def named(self, words: tuple[str, ...]) -> bool:
        """Whether its name or its id holds one of the words."""
        text = f"{self.name} {self.id}".casefold()
        return any(word in text for word in words)


UNKNOWN_DEVICE = Device("", "a device of that memory", "", None, 0.0)


class Asked(NamedTuple):
    """The engine's own settings as asked; None leaves one to the release."""

    max_batched_tokens: int | None = None
    max_sequences_limit: int | None = None
    block_tokens: int | None = None
    enforce_eager: bool = False
    prefix_caching: bool | None = None
    async_scheduling: bool | None = None
    attention_backend: str | None = None
    hybrid_cache: bool | None = None
    speculative_method: str | None = None
    speculative_tokens: int = 0
    sampler_backend: str | None = None
    moe_backend: str | None = None
    encoder_budget_tokens: int | None = None
    encoder_limits: Sequence[str] | None = None
    encoder_image_pixels: int | None = None
    encoder_profiling: bool = True
    encoder_data_parallel: bool = False
    decode_context_parallel: int = 1
    max_loras: int | None = None
    max_lora_rank: int | None = None
    fully_sharded_loras: bool = False
    cpu_offload_bytes: int = 0
    graph_mode: str | None = None
    graph_sizes: tuple[int, ...] | None = None
    graph_size_limit: int | None = None


class Memory(NamedTuple):
    """A device's memory in bytes; `reserve_bytes` and `pool_bytes` where the question sets them."""

    memory_bytes: int
    utilization: float
    others_bytes: int = 0
    reserve_bytes: int | None = None
    pool_bytes: int | None = None
    correction: Correction = UNCORRECTED


class Setting(NamedTuple):
    """All that the arithmetic needs of a question; a lever is the same with one field changed."""

    model: Model
    weights: WeightFormat
    cache: CacheFormat
    layout: Layout
    device: Device
    memory: Memory
    context_tokens: int
    limit_tokens: int
    asked: Asked
    weight_bytes: int | None = None
    parameters: int | None = None


class Batch(NamedTuple):
    """Tokens and sequences of one batch, and the batches that may be in flight at once.

    `profiled` are the sequences that the profiled pass samples for.
    """

    tokens: int
    sequences: int
    concurrent: int
    profiled: int

    @property
    def flight_tokens(self) -> int:
        """Tokens scheduled and not yet settled."""
        return self.tokens * self.concurrent


def has_states(architecture: Architecture) -> bool:
    """Whether some layers carry recurrent state."""
    return any(isinstance(owners.spec, RecurrentCache) for owners in architecture.caches)


def has_latent(architecture: Architecture) -> bool:
    """Whether some layers keep a latent cache."""
    return any(isinstance(owners.spec, LatentCache) for owners in architecture.caches)
