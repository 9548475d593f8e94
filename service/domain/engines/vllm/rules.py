"""The rules of one release, each a figure or a choice that the catalog dates and gives its evidence for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from service.domain.engines.versions import Release
    from service.domain.engines.vllm.adapter_rules import AdapterRules
    from service.domain.engines.vllm.compressed_rules import Compressed
    from service.domain.engines.vllm.graph_rules import GraphRule, GraphsRule
    from service.domain.engines.vllm.media_rules import MediaRule, TowersRule


class Span(NamedTuple):
    """A size in bytes as the evidence spreads it."""

    low: int
    middle: int
    high: int


NOTHING = Span(0, 0, 0)


class SpanAt(NamedTuple):
    """A size that holds for devices from a compute capability on."""

    capability: float
    span: Span


class Beside(NamedTuple):
    """By how many bytes a cache may be smaller or larger than all parts say."""

    less: int
    more: int


NOTHING_BESIDE = Beside(0, 0)


class Shares(NamedTuple):
    """By which share of itself a size may be smaller or larger."""

    less: float
    more: float


@dataclass(frozen=True, slots=True)
class EngineRule:
    """Which core runs, and what makes a newer release fall back to the older one."""

    core: str
    falls_back_below_capability: float = 0.0
    falls_back_for_narrow_cache_below_capability: float = 0.0
    falls_back_for_32_bits: bool = False
    falls_back_for_states: bool = False
    falls_back_for_formats: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Tier:
    """Batch defaults of a class of devices, by size and by what their names hold."""

    tokens: int
    sequences: int
    least_gib: int = 0
    named: tuple[str, ...] = ()
    not_named: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchRule:
    """Tokens and sequences of a batch where nobody sets them.

    Either by tiers of devices, or whole prompts: as many tokens as the longest sequence and never under
    `least_tokens`, in chunks where the longest is above `chunks_above_tokens`. Where a batch may not cut a picture, it
    has `whole_picture_tokens` at least.
    """

    tiers: tuple[Tier, ...] = ()
    sequences: int = 0
    whole_prompts: bool = False
    least_tokens: int = 0
    chunks_above_tokens: int = 0
    chunk_tokens: int = 0
    whole_picture_tokens: int = 0


class AtCapability(NamedTuple):
    """A figure that holds for devices from a compute capability on."""

    capability: float
    value: int


@dataclass(frozen=True, slots=True)
class BlockRule:
    """Tokens of a block by what attends, and the sizes that may be asked for (any multiple of 16 where empty)."""

    tokens: int
    latent: tuple[AtCapability, ...]
    sparse_tokens: int
    sizes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Backend:
    """What attends: the block it prefers, those it takes (multiples of 16 where none are listed), and its workspace."""

    tokens: int
    sizes: tuple[int, ...] = ()
    latent: bool = False
    workspace_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExpertKernel:
    """What runs experts, as far as it holds other rows than the common form.

    `passing` rows of the hidden width, for each token and expert it visits, are held while a layer runs; the second
    buffer is as wide as an expert's inner width alone where `narrow`.
    """

    formats: frozenset[str] = frozenset()
    passing: int = 0
    narrow: bool = False


def kernel_name(asked: str) -> str:
    """The name as the engine compares it."""
    return asked.casefold().replace("-", "_")


@dataclass(frozen=True, slots=True)
class PagingRule:
    """How a release pages its caches; see `pages.PageRules` for the first five.

    `windows` is `alone` where windows count only in models without full attention. `printed_size` says which tokens are
    printed: `blocks` x tokens of a block, the same `shared` by groups, or `concurrency` x the longest sequence.
    """

    windows: str
    chunks: bool
    states: bool
    printed_size: str
    latent_expanded: bool = False
    latent_multiple_bytes: int = 1
    group_ratio: float | None = None
    states_cached_by_default: bool = False
    concurrent_batches: bool = False
    null_block: bool = False


@dataclass(frozen=True, slots=True)
class CacheType:
    """A cache type, the first release that knows it, and its scale for each token, head and side."""

    first: str
    since: Release
    scale_bytes: int


@dataclass(frozen=True, slots=True)
class SamplerMethod:
    """Peak bytes of an element of [sequences, vocabulary], and 32-bit rows of the vocabulary beside it."""

    element_bytes: float
    narrow_element_bytes: float
    buffer_rows: int
    spread: float


@dataclass(frozen=True, slots=True)
class SamplerRule:
    """What samples by default; `installed` is what does instead where its library happens to be installed."""

    method: str
    installed: str | None = None


@dataclass(frozen=True, slots=True)
class ExpertsRule:
    """Whether the buffers of expert layers outlive the pass, and the tokens of one of its chunks.

    Some kernels give each expert a multiple of `aligned_rows`.
    """

    kept: bool
    chunk_tokens: int
    aligned_rows: int = 1


@dataclass(frozen=True, slots=True)
class RunnerRule:
    """Which models the second runner takes (`none`, `named`, `plain` or `all`), and whether it estimates graphs.

    Its profiled pass draws from the logits alone, whatever sampler is to run; `sampling` is that pass's peak.
    """

    second: str
    estimates_graphs: bool
    model_types: tuple[str, ...] = ()
    sampling: SamplerMethod | None = None


@dataclass(frozen=True, slots=True)
class RuntimeRule:
    """Memory outside PyTorch, and whether other processes' memory is taken for the engine's own.

    `adds_loading`: what the device's use grew by while weights were loaded is added to it, not only their tensors.
    """

    span: Span
    counts_others: bool
    adds_loading: bool = False
    by_capability: tuple[SpanAt, ...] = ()

    def span_of(self, capability: float | None) -> Span:
        """The size on a device of that capability; that of the oldest where it is not known."""
        reached = [row for row in self.by_capability if capability is not None and row.capability <= capability]
        return max(reached).span if reached else self.span


@dataclass(frozen=True, slots=True)
class LinkRule:
    """Communication buffers of each rank, up to that many ranks on that kind of link, from a capability on.

    `fused` rows hold where all-reduces are fused with what follows: steps compiled, ranks of one replica and one stage.
    """

    link: str
    ranks: int
    span: Span
    capability: float = 0.0
    fused: bool = False


@dataclass(frozen=True, slots=True)
class Padding:
    """How an expert kernel rounds up the sides [wide, hidden] of its matrices, or those of experts without a gate."""

    format: str
    capability: float
    rows: int
    columns: int
    factor: float
    ungated: bool = False


@dataclass(frozen=True, slots=True)
class OffloadRule:
    """What a release does with weights that stay in host memory.

    `views`: the device reads them there, and copies no layer. `one_group`: it does not start with several groups of
    caches. `second_runner`: the second model runner does it too. `towers`: encoders are moved as layers are.
    """

    views: bool
    one_group: bool = False
    second_runner: bool = True
    towers: bool = False


@dataclass(frozen=True, slots=True)
class EncoderRule:
    """What embedding pictures takes, by family where one differs."""

    patch_bytes: int
    wide_patch_bytes: dict[str, int]
    patches_per_token: int
    by_model_type: dict[str, int]
    item_tokens: dict[str, int]
    item_tokens_otherwise: int
    low: float
    high: float
    apart: float
    at_once_tokens: dict[str, int]

    def patches_of(self, model_type: str) -> tuple[int, int]:
        """How many patches of that family make a token, and the bytes of one."""
        each = self.by_model_type.get(model_type, self.patches_per_token)
        return each, self.wide_patch_bytes.get(model_type, self.patch_bytes)

    def item_of(self, model_type: str) -> int:
        """Tokens of the largest single item of that family."""
        return self.item_tokens.get(model_type, self.item_tokens_otherwise)


@dataclass(frozen=True, slots=True, eq=False)
class Constants:
    """Figures that no release has changed so far."""

    methods: dict[str, SamplerMethod]
    hidden_multiple: int
    forward_spread: dict[str, Shares]
    workspace: tuple[AtCapability, ...]
    penalty_element_bytes: float
    pipeline: Span
    link_from: float
    graph: GraphRule
    encoder: EncoderRule
    rotary_element_bytes: int
    picture_rotary_stretch: int
    vocabulary_multiple: int
    weight_types: dict[str, str]
    mixed_formats: frozenset[str]
    weight_spread: dict[str, float]
    without_buffers: frozenset[str]
    expert_kernels: dict[str, ExpertKernel]
    aligned_formats: frozenset[str]
    aligned_capability: float
    unified: Span
    vendor_runtime: dict[str, Span]
    vendor_loading: dict[str, Span]
    interval_share: float
    interval_beside: dict[str, Beside]
    own_drafts: frozenset[str]
    cache_types: dict[str, CacheType]
    backends: dict[str, Backend]
    backend_workspace: tuple[AtCapability, ...]
    undescribed: dict[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class Rules:
    """Everything that depends on the release, for one of its cores; itself a key of what follows from it."""

    core: str
    utilization: float
    batch: BatchRule
    blocks: BlockRule
    paging: PagingRule
    sampler: SamplerRule
    experts: ExpertsRule
    runner: RunnerRule
    runtime: RuntimeRule
    links: tuple[LinkRule, ...]
    graphs: GraphsRule
    towers: TowersRule
    media: MediaRule
    copies_tables: bool
    offload: OffloadRule
    paddings: tuple[Padding, ...]
    adapters: AdapterRules
    compressed: Compressed
    constants: Constants


def at_capability(rows: tuple[AtCapability, ...], capability: float | None, default: int) -> int:
    """The figure of the highest capability that the device reaches; the default below all or where it is not known."""
    reached = [row for row in rows if capability is not None and row.capability <= capability]
    return max(reached).value if reached else default
