"""The share of free memory that weights and caches get where nobody sets it (accounting 3.1).

Sizes are in MiB, as in the release's own arithmetic, and of the device as its driver counts it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from service.domain.engines.sglang.rules import EncoderRule, FractionRule, Rules, SumReserve, Tier

_SIZES = ((4, 33, 4), (48, 257, 16), (288, 513, 32), (576, 1025, 64), (1280, 4097, 256))
_WIDE_START, _WIDE_STEP = 4608, 512


class Layout(NamedTuple):
    """What of a setting the share follows from."""

    device_mib: int
    ranks: int
    tensor: int
    attention_ranks: int
    latent: bool
    drafted: bool
    tower: tuple[int, int]
    """Layers and hidden width of a vision encoder, zeros without one."""
    prompt_graphs: bool = True
    """Whether graphs of prompts are captured."""


class Batch(NamedTuple):
    """Tokens of a chunk, sequences of the largest captured graph, and whether any is captured."""

    tokens: int
    graph_sequences: int
    graphs: bool = True


def batch_of(rules: Rules, layout: Layout, tokens: int | None, sequences: int | None, *, graphs: bool) -> Batch:
    """The batch of a device, with the tokens and the limit of sequences that were asked."""
    rule = rules.batch
    tier = rule.tier(layout.device_mib)
    captured = _captured(tier, many=layout.tensor >= rule.many_ranks)
    if sequences is not None and rule.capped:
        captured = min(captured, sequences)
    return Batch(tokens or tier.tokens, captured, graphs)


def _captured(tier: Tier, *, many: bool) -> int:
    return tier.graph_sequences_many if many and tier.graph_sequences_many else tier.graph_sequences


def fraction_of(rules: Rules, layout: Layout, batch: Batch) -> float:
    """The default share: what passes, graphs and links do not take, and less of it beside an encoder."""
    rule = rules.fraction
    share = rule.shares.fraction(layout.ranks, layout.device_mib) if rule.shares else _by_reserve(rule, layout, batch)
    return share * _encoder_factor(rules.encoder, layout.tower) if layout.tower[0] else share


def _by_reserve(rule: FractionRule, layout: Layout, batch: Batch) -> float:
    reserved = _summed(rule.sum_of, layout, batch) if rule.sum_of else _sized(rule, layout)
    if layout.drafted:
        reserved += rule.draft_mib
    if layout.attention_ranks > 1:
        reserved += rule.attention_ranks_mib
    return max(0.0, round((layout.device_mib - reserved) / layout.device_mib, rule.digits))


def _sized(rule: FractionRule, layout: Layout) -> float:
    size = next(s for s in rule.by_size if s.below_mib is None or layout.device_mib < s.below_mib)
    return size.fixed_mib + size.rank_mib * layout.ranks


def _summed(rule: SumReserve, layout: Layout, batch: Batch) -> float:
    reserved = rule.fixed_mib + rule.token_mib * max(batch.tokens, rule.least_tokens) + rule.rank_mib * layout.ranks
    if batch.graphs or rule.eager_decode:
        reserved += rule.graph_sequence_mib * batch.graph_sequences
    if layout.attention_ranks > 1:
        wide = rule.attention_rank_wide_mib if batch.graph_sequences > rule.wide_above else 0
        reserved += batch.graph_sequences * layout.attention_ranks * (rule.attention_rank_mib + wide)
    if layout.prompt_graphs and (batch.graphs or rule.eager_prompt):
        sizes = captured_sizes(batch.tokens)
        reserved += rule.prefill_latent_mib if layout.latent else rule.prefill_size_mib * sizes
    return max(reserved, rule.floor_mib) if layout.device_mib > rule.floor_above_mib else reserved


def captured_sizes(most_tokens: int) -> int:
    """How many prompt sizes are captured up to so many tokens."""
    listed = [*_SIZES, (_WIDE_START, most_tokens + 1, _WIDE_STEP)]
    return sum(len(range(start, min(stop, most_tokens + 1), step)) for start, stop, step in listed)


def _encoder_factor(rule: EncoderRule, tower: tuple[int, int]) -> float:
    layers, hidden = tower
    size = layers * hidden**2 / (rule.layers * rule.hidden**2)
    return rule.factor * max(rule.least, min(rule.most, 1 - rule.sensitivity * (size - 1)))
