"""The rules of one release of SGLang, each a figure or a choice that the catalog dates and gives its evidence for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from service.domain.engines.ranks.drafts import DraftRule
    from service.domain.engines.ranks.padding import ExpertKernel
    from service.domain.engines.sglang.compressed_rules import Compressed


@dataclass(frozen=True, slots=True)
class Tier:
    """Batch defaults of devices below a size; `graph_sequences` of few ranks and of many."""

    tokens: int
    below_mib: int | None = None
    graph_sequences: int = 0
    graph_sequences_many: int = 0


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Tokens of a chunk and the largest captured batch by size of the device; the last tier is for any.

    Where it is `capped`, no larger batches are captured than the limit of sequences that was asked.
    """

    tiers: tuple[Tier, ...]
    many_ranks: int
    capped: bool = False

    def tier(self, device_mib: int) -> Tier:
        """The tier of a device of that size."""
        return next(tier for tier in self.tiers if tier.below_mib is None or device_mib < tier.below_mib)


@dataclass(frozen=True, slots=True)
class Shares:
    """A fixed share by the number of ranks up to a size, and beyond it what `beyond_reserved_mib` leave, or a share.

    Devices above `above_mib` get more of it.
    """

    by_ranks: tuple[tuple[int, float], ...]
    up_to_mib: int
    otherwise: float
    beyond_reserved_mib: int = 0
    above_mib: int | None = None
    spread_mib: int = 0
    most_reserved_mib: int = 0

    def fraction(self, ranks: int, device_mib: int) -> float:
        """The share of a device of that size."""
        found = self.otherwise
        if device_mib <= self.up_to_mib:
            found = next((share for least, share in self.by_ranks if ranks >= least), self.otherwise)
        elif self.beyond_reserved_mib:
            found = (device_mib - self.beyond_reserved_mib) / device_mib
        if self.above_mib is None or device_mib <= self.above_mib:
            return found
        larger = found + self.spread_mib * (1 - found) / device_mib
        return min(larger, (device_mib - self.most_reserved_mib) / device_mib)


@dataclass(frozen=True, slots=True)
class SizeReserve:
    """What devices below a size keep free, and more of it for each rank."""

    fixed_mib: float
    rank_mib: float
    below_mib: int | None = None


@dataclass(frozen=True, slots=True)
class FractionRule:
    """The default share of free memory: whichever of the three forms a release has.

    `sum_of` adds up what passes and graphs take; the others are by size alone.
    """

    sum_of: SumReserve | None = None
    by_size: tuple[SizeReserve, ...] = ()
    shares: Shares | None = None
    draft_mib: int = 0
    attention_ranks_mib: int = 0
    digits: int = 3


@dataclass(frozen=True, slots=True)
class SumReserve:
    """MiB of a pass, of ranks and of graphs (accounting 3.1).

    `eager_decode` and `eager_prompt` say whether graphs of steps and of prompts are counted where none are captured.
    """

    fixed_mib: int
    token_mib: float
    least_tokens: int
    rank_mib: int
    graph_sequence_mib: float
    attention_rank_mib: float
    attention_rank_wide_mib: float
    wide_above: int
    floor_above_mib: int
    floor_mib: int
    prefill_size_mib: int = 0
    prefill_latent_mib: int = 0
    eager_decode: bool = False
    eager_prompt: bool = False


@dataclass(frozen=True, slots=True)
class PromptGraphRule:
    """Whether graphs of prompts are captured: not with what is in `never_with`, nor of some `families`.

    `latent` says of which latent attention they are: "all", "indexed" or "none"; `media_families` read pictures and
    have them all the same.
    """

    captured: bool
    latent: str = "all"
    never_with: frozenset[str] = frozenset()
    families: frozenset[str] = frozenset()
    media_families: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WorkspaceRule:
    """A backend that lowers any share by a factor where sequences are longer, and is `vendor`'s default.

    With latent attention it is that for as many heads of keys a rank as `latent_heads` list.
    """

    backend: str = ""
    vendor: str = ""
    latent_heads: frozenset[int] = frozenset()
    factor: float = 1.0
    above_tokens: int = 0


@dataclass(frozen=True, slots=True)
class DrafterRule:
    """Whether a drafter's cache is counted with a token's bytes, and its weights are there when pools are sized."""

    cache: bool
    weights: bool


@dataclass(frozen=True, slots=True)
class EncoderRule:
    """By how much an encoder lowers the share, and what is kept for its inputs (accounting 3.1, 3.2).

    Families whose configs call their layers otherwise are taken to have `layers`; those in `as_decoder` give the
    width of the decoder as that of the encoder.
    """

    factor: float
    layers: int
    hidden: int
    sensitivity: float
    least: float
    most: float
    input_bytes: int
    unnamed: frozenset[str] = frozenset()
    as_decoder: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Families whose windows have a pool of their own, and its tokens for each of the other pool.

    Those in `not_paged` have none on devices whose attention takes pages.
    """

    families: frozenset[str]
    ratio: tuple[int, int]
    not_paged: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class StateRule:
    """The pool of recurrent states: its share beside that of tokens, and slots for each running sequence.

    Families in `tracked` take `slots_tracked` of them. States of drafted tokens are kept `for_drafts`: "slot", with
    each slot; "limit", for the most sequences that may run, before anything is split; "running", for those that do run.
    """

    ratio: tuple[int, int]
    spare_slots: int
    slots_cached: int
    slots_tracked: int
    tracked: frozenset[str]
    for_drafts: str
    element_bytes: int

    def slots_each(self, family: str) -> int:
        """Slots that a running sequence takes where states are kept for later ones."""
        return self.slots_tracked if family in self.tracked else self.slots_cached


@dataclass(frozen=True, slots=True)
class RunningRule:
    """Sequences that run at most: tokens over the longest length, times a factor, within two bounds."""

    factor: int
    least: int
    most: int
    least_tokens_each: int


@dataclass(frozen=True, slots=True)
class PageRule:
    """Tokens of a page by what attends."""

    tokens: int
    by_backend: dict[str, tuple[int, ...]]
    indexed: int
    latent_from: float
    latent_tokens: int
    full_from: float
    full_below: float
    full_tokens: int


@dataclass(frozen=True, slots=True)
class Constants:
    """Figures that no release has changed so far; spans are low, middle and high, in bytes."""

    runtime: tuple[int, int, int]
    links: dict[str, tuple[int, int, int]]
    indexed_narrow_bytes: int
    cache_types: frozenset[str]
    weight_types: dict[str, str]
    drafts: DraftRule
    draft_tokens: dict[str, int]
    """Tokens drafted at a time where nobody says: of some families, and "" of all others."""
    drafted_sequences: int
    """Sequences that run at most beside a drafter where nobody says."""
    weight_spread: dict[str, float]
    """Shares by which weights as loaded may differ: wide ones, those of models with encoders, and narrow ones."""
    loading_bytes: int
    """By how much free memory after loading may differ whatever the weights."""
    rotary_element_bytes: int
    unshared: frozenset[str]
    """Families whose layers all have caches of their own, also those that read another layer's."""


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Everything that depends on the release; itself a key of what follows from it."""

    name: str
    note: str | None
    batch: BatchRule
    fraction: FractionRule
    windows: WindowRule
    states: StateRule
    running: RunningRule
    pages: PageRule
    encoder: EncoderRule
    prompt_graphs: PromptGraphRule
    workspace: WorkspaceRule
    drafter: DrafterRule
    kernels: tuple[ExpertKernel, ...]
    compressed: Compressed
    constants: Constants
