"""Compressed attention (DeepSeek-V4): windows, vectors for few and for many tokens, and inputs still to be compressed.

Re-derived from DSV4PoolConfigurator of srt/model_executor/pool_configurator.py (0.5.12 to 0.5.23): bytes of a token in
all pools divide what states of sequences, and windows where they are kept for sequences, leave of the budget.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from service.domain.cache.base import CacheKind
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.prediction import predicted_layers
from service.domain.engines.ranks.attention import attention_ranks
from service.domain.engines.ranks.pool import Pool
from service.domain.engines.sglang.compressed_rules import SEQUENCES
from service.domain.engines.sglang.drafting import draft_tokens
from service.domain.engines.sglang.layout import batch_for, layout_of
from service.domain.engines.sglang.pools import TokenPool
from service.domain.parallel import stage_layers
from service.domain.units import ceil_div, up
from service.domain.weights import stage_shapes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.architecture import Architecture
    from service.domain.cache.base import CacheSpec
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.compressed_rules import Compressed, PageFacts
    from service.domain.engines.sglang.rules import Rules
    from service.domain.loads import RankLoad


class Sizes(NamedTuple):
    """Bytes of a page: in pools that grow with every token, and in those of windows with what is kept beside them.

    `row` are those of a token's inputs for vectors of `many` tokens where sequences keep them, `layers` those counted.
    """

    full: int
    window: int
    row: int
    many: int
    layers: int


@dataclass(frozen=True, slots=True)
class CompressedPool(Pool):
    """Pools of tokens beside what is fixed: `inner` counts in bytes of a token times `scale`, in whole numbers.

    Where windows are kept for sequences, more of them than may run fit, so that tokens alone are counted.
    `least_window_tokens` is what a pool of windows has to exceed for the engine to start.
    """

    inner: TokenPool
    fixed_bytes: int
    page_tokens: int
    scale: int
    least_window_tokens: int

    @property
    def blocks_of(self) -> int:  # type: ignore[override]  # tokens of a page are this pool's own
        """Tokens of a page."""
        return self.page_tokens

    @property
    def groups(self) -> int:  # type: ignore[override]  # as the engine names them
        """Windows, vectors of few and of many tokens."""
        return 3

    def _left(self, pool_bytes: int) -> int:
        return max(0, pool_bytes - self.fixed_bytes) * self.scale

    def tokens(self, pool_bytes: int) -> int:
        """Tokens that the engine prints."""
        found = self.inner.tokens(self._left(pool_bytes))
        return found if self.window_tokens(found) > self.least_window_tokens else 0

    def window_tokens(self, tokens: int) -> int:
        """Tokens of the pool of windows that go with so many; more than any least where they are fixed."""
        windows, each = self.inner.ratio
        if not self.inner.window_bytes:
            return self.least_window_tokens + 1
        return tokens * windows // each // self.page_tokens * self.page_tokens

    def _held(self, pool_bytes: int) -> int:
        return self._left(pool_bytes) if self.tokens(pool_bytes) else 0

    def sequences(self, pool_bytes: int, context_tokens: int) -> int:
        """Whole sequences by the pool that fills first."""
        return self.inner.sequences(self._held(pool_bytes), context_tokens)

    def concurrency(self, pool_bytes: int, limit_tokens: int) -> float:
        """The same unrounded."""
        return self.inner.concurrency(self._held(pool_bytes), limit_tokens)

    def needed(self, sequences: int, context_tokens: int) -> int:
        """The smallest budget that holds so many, and that the engine starts with."""
        size = self.inner.needed(sequences, context_tokens)
        if self.inner.window_bytes and self.least_window_tokens:
            windows, each = self.inner.ratio
            tokens = ceil_div(up(self.least_window_tokens + 1, self.page_tokens) * each, windows)
            cell = each * self.inner.full_bytes + windows * self.inner.window_bytes
            size = max(size, ceil_div(cell * up(tokens, self.page_tokens), each))
        return self.fixed_bytes + ceil_div(size, self.scale)

    def longest(self, pool_bytes: int, at_most: int) -> int | None:
        """The longest single sequence."""
        return self.inner.longest(self._held(pool_bytes), at_most)

    def allocated(self, pool_bytes: int) -> int:
        """All pools as they are counted; what pages take beyond comes out of what the share leaves free."""
        held = self._held(pool_bytes)
        return self.fixed_bytes + ceil_div(self.inner.allocated(held), self.scale) if held else 0


def compressed_pool(setting: Setting, rules: Rules, load: RankLoad) -> CompressedPool:
    """The pools of a rank."""
    known, sequences, drafts = rules.compressed, most_sequences(setting, rules), draft_tokens(setting, rules)
    rule, page = known.rule, known.pages.tokens
    rings = known.windows.drafted_rings if drafts else 1
    sizes = _sizes(setting, known, load, rings)
    window = max(term.window_tokens or 0 for term in load.terms)
    fixed = _ring_bytes(sizes, sequences, rings)
    # One more layer of the average size stands for a drafter.
    times, scale = (sizes.layers + 1, page * sizes.layers) if drafts else (1, page)
    full, counted = sizes.full * times, sizes.window * times
    if rule.windows == SEQUENCES:
        fixed += ceil_div(_window_pool(setting, rules, window, drafts) * counted, scale)
        counted = 0
    inner = TokenPool(full, counted, window, known.windows.ratio, page, exact=False)
    return CompressedPool(inner, fixed, page, scale, window + page if rule.least_checked else 0)


def most_sequences(setting: Setting, rules: Rules) -> int:
    """Sequences that one cache runs at most, asked or as the release sets it for such models."""
    asked = setting.asked.get("max_sequences_limit") or rules.compressed.windows.sequences
    return max(1, asked // attention_ranks(setting))


def _window_pool(setting: Setting, rules: Rules, window: int, drafts: int) -> int:
    """Tokens of windows: of sequences that run, of prompts being read, and of prefixes kept for later ones."""
    facts, page, sequences = rules.compressed.windows, rules.compressed.pages.tokens, most_sequences(setting, rules)
    chunk = batch_for(setting, rules, layout_of(setting, rules)).tokens // attention_ranks(setting)
    taken = facts.chunks * drafts if drafts else page
    each = window + facts.late_tokens * max(1, drafts) + page + taken
    running = sequences * each + facts.chunks * chunk + page
    prefixes = facts.prefixes * sequences if setting.flag("prefix_caching", default=True) else 0
    return up(running + prefixes * (window + page), page)


def _ring_bytes(sizes: Sizes, sequences: int, rings: int) -> int:
    """Inputs kept for each sequence and two spare ones, and a row on which nothing is read, in whole vectors."""
    return sizes.row * up((sequences + 2) * sizes.many * rings + 1, sizes.many) if sizes.row else 0


def _sizes(setting: Setting, known: Compressed, load: RankLoad, rings: int) -> Sizes:
    """Bytes of a page of a rank, or of the whole model where the release counts that."""
    rule, page, facts = known.rule, known.pages.tokens, known.pages
    held = _layers(setting, load, whole=rule.whole)
    many = max((spec.tokens_per_row for spec, _ in held if isinstance(spec, LatentCache)), default=0)
    full = window = row = counted = 0
    for spec, layers in held:
        if isinstance(spec, LatentCache):
            full += layers * _rows_bytes(page // spec.tokens_per_row, facts, padded=rule.padded)
        elif spec.kind is CacheKind.INDEXER:
            full += layers * page // getattr(spec, "tokens_per_row", 1) * facts.index_bytes
        elif isinstance(spec, RecurrentCache):
            kept = layers * spec.value_width * spec.state_element_bytes
            if rule.many_states == SEQUENCES and spec.key_width == many:
                row += kept
            else:
                window += kept * rings * spec.key_width * page // rule.ring_tokens
        else:
            counted += layers
            window += layers * _rows_bytes(page, facts, padded=rule.padded)
    return Sizes(full, window, row, many, counted)


def _rows_bytes(rows: int, facts: PageFacts, *, padded: bool) -> int:
    size = rows * facts.row_bytes
    return up(size, facts.multiple_bytes) if padded else size


def _layers(setting: Setting, load: RankLoad, *, whole: bool) -> list[tuple[CacheSpec, int]]:
    if not whole:
        return [(term.spec, term.layers) for term in load.terms]
    architecture = setting.scenario.model.architecture
    added = predicted_layers(architecture)
    return [
        (owners.spec, len(owners.layers) + (added if owners.spec.kind is CacheKind.SLIDING else 0))
        for owners in architecture.caches
    ]


def loading_bytes(setting: Setting, known: Compressed) -> tuple[int, ...]:
    """By stage, what modules that stay wide and tables of angles take beside the checkpoint's own sizes."""
    scenario, facts = setting.scenario, known.memory
    if scenario.weight_bytes is not None:
        return (0,) * scenario.layout.pipeline
    architecture = scenario.model.architecture
    sizes, table = facts.element_bytes, known.table_bytes(architecture.context_tokens or 0)
    return tuple(
        table * _angles(architecture, layers)
        + sum(
            part.elements * sizes[part.module.name] - part.bytes(scenario.weights)
            for part in stage.read
            if part.module.name in sizes
        )
        for stage, layers in zip(
            stage_shapes(architecture, scenario.layout),
            stage_layers(architecture.layers, scenario.layout.pipeline),
            strict=True,
        )
    )


def _angles(architecture: Architecture, layers: range) -> int:
    """Kinds of angles of a stage: layers that compress turn vectors otherwise than those that do not."""
    compressed = {
        layer for owners in architecture.caches if isinstance(owners.spec, LatentCache) for layer in owners.layers
    }
    return len({layer in compressed for layer in layers})


def compressed_lines(pool: CompressedPool, pool_bytes: int) -> Iterator[str]:
    """How the budget becomes tokens, one step a line."""
    page, scale, inner, tokens = pool.page_tokens, pool.scale, pool.inner, pool.tokens(pool_bytes)
    if pool.fixed_bytes:
        yield f"{pool.fixed_bytes:,} B made for the sequences that may run"
    windows, each = inner.ratio
    beside = f" + {windows / each:g} x {inner.window_bytes / scale:,.2f} B in windows" if inner.window_bytes else ""
    yield f"{inner.full_bytes / scale:,.2f} B a token in compressed vectors{beside}"
    held = f", {pool.window_tokens(tokens):,} of them in windows" if inner.window_bytes else ""
    yield f"{tokens:,} tokens in pages of {page:,}{held}"
