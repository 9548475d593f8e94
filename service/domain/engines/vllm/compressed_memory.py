"""What compressed attention takes of memory beside its pages: wider modules, tables of angles, workspaces, streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind, Shard
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.engines.vllm.drafts import OWN_LAYERS
from service.domain.units import ceil_div, up
from service.domain.weights import stage_shapes

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.engines.vllm.compressed_rules import Compressed, MemoryFacts
    from service.domain.engines.vllm.setting import Batch, Setting

_WIDE_BYTES, _HALF_BYTES = 4, 2
_INDEX_STEP = 128
_FEW = 2
_STREAMS = "stream_mix"


def drafted_bytes(setting: Setting) -> int:
    """A rank's share of the prediction layers, whose experts and matrices are stored as those of the others."""
    architecture, number, layout = setting.model.architecture, setting.weights, setting.layout
    experts = next((m for m in architecture.modules if m.kind is ModuleKind.EXPERT), None)
    own = number.of(experts) if experts else number
    total = 0
    for module in architecture.modules:
        if module.kind is not ModuleKind.PREDICTION:
            continue
        routed = module.per_layer > _FEW and module.columns > 1
        stored = own.matrix_bytes if routed else number.matrix_bytes
        ranks = layout.tensor * (layout.data if routed and layout.expert else 1)
        size = stored(module.rows, module.columns, ModuleKind.EXPERT)
        total += module.count * size // (1 if module.shard is Shard.REPLICATED else ranks)
    return total


class Added(NamedTuple):
    """Bytes of a batch's pass: what is held while a layer runs, and the workspace that outlives it."""

    forward: int
    kept: int


def wider_bytes(setting: Setting, facts: MemoryFacts) -> tuple[int, ...]:
    """By stage, what modules take that the engine keeps in more bits than the checkpoint's format says."""
    shapes = stage_shapes(setting.model.architecture, setting.layout)
    sizes, number = facts.element_bytes, setting.weights
    return tuple(
        sum(
            part.elements * sizes[part.module.name] - part.bytes(number)
            for part in stage.read
            if part.module.name in sizes
        )
        for stage in shapes
    )


def rotary_bytes(setting: Setting, facts: MemoryFacts) -> int:
    """A table of angles for layers with vectors, and one for layers with windows alone, over every position."""
    architecture = setting.model.architecture
    vectors = {n for c in architecture.caches if isinstance(c.spec, LatentCache) for n in c.layers}
    windows = {n for c in architecture.caches if isinstance(c.spec, SlidingCache) for n in c.layers}
    # The checkpoint's own drafter has windows alone.
    alone = bool(windows - vectors) or setting.asked.speculative_method in OWN_LAYERS
    kinds = bool(vectors) + alone
    return kinds * (architecture.context_tokens or 0) * facts.rotary_elements * facts.rotary_bytes


def added(setting: Setting, rules: Compressed, batch: Batch, *, last: bool) -> Added:
    """The profiled pass: residual streams, padded heads of queries and output, the index's scores; and a workspace."""
    architecture, facts = setting.model.architecture, rules.memory
    heads = ceil_div(architecture.query_heads, setting.layout.tensor)
    padded = next((count for count in facts.padded_heads if count >= heads), heads)
    attended = 2 * batch.tokens * padded * rules.pages.row_elements * _HALF_BYTES
    count, stream = _streams(architecture), batch.tokens * architecture.hidden_size * _HALF_BYTES
    drafted = count * stream if last and setting.asked.speculative_method in OWN_LAYERS else 0
    forward = facts.streams_held * (count - 1) * stream + max(attended, facts.logits_bytes)
    return Added(forward, _workspace(setting, rules, batch) + drafted)


def _streams(architecture: Architecture) -> int:
    """Residual streams: what mixes them has a column for each element of all of them."""
    mixes = (m.columns for m in architecture.modules if m.name == _STREAMS)
    return max(mixes, default=architecture.hidden_size) // architecture.hidden_size


def _workspace(setting: Setting, rules: Compressed, batch: Batch) -> int:
    """The larger of vectors gathered for prompts and of index keys gathered for them: one buffer serves both."""
    specs = [owners.spec for owners in setting.model.architecture.caches]
    pages, facts, longest = rules.pages, rules.memory, setting.limit_tokens
    rate = min(spec.tokens_per_row for spec in specs if isinstance(spec, LatentCache))
    window = max(spec.window_tokens for spec in specs if isinstance(spec, SlidingCache))
    picked = max(spec.read_limit_tokens or 0 for spec in specs if isinstance(spec, LatentCache)) // rate
    rows = facts.prompts_at_once * (ceil_div(longest, rate) + window + batch.tokens)
    vectors = rows * pages.row_elements * _HALF_BYTES + batch.tokens * up(picked + window, _INDEX_STEP) * _WIDE_BYTES
    rates = [spec.tokens_per_row for spec in specs if isinstance(spec, IndexerCache)]
    keys = max(rules.rule.gathered_keys(longest) // each * pages.index_bytes for each in rates)
    return max(vectors, keys) + batch.tokens * picked * _WIDE_BYTES
