"""What a release of vLLM would print when it starts: the pool, its blocks, its concurrency, or the refusal.

Blocks = pool // bytes of a block on the rank that has the fewest; concurrency = blocks / blocks of the longest
request. The parts of that rank's memory add up to the byte.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.lengths import lasting
from service.domain.engines.vllm.adapters import slot_bytes, slots_note
from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.offloading import check_offload
from service.domain.engines.vllm.planning import flight_of, loaded_of, plan_of, weight_bytes
from service.domain.engines.vllm.refusals import Refusal, check, check_change, core_of
from service.domain.engines.vllm.reserve import Part, Reserve, corrected, follows_length, length_kept_for, reserve_of
from service.domain.engines.vllm.setting import has_states
from service.domain.units import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    from service.domain.engines.vllm.groups import Flight, Plan
    from service.domain.engines.vllm.loading import Loaded
    from service.domain.engines.vllm.policy import ReleaseRules
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Batch, Memory, Setting

_WIDE_BITS, _EIGHT_BITS = 16, 8
_NOTHING_KEPT = Reserve((), 0, 0.0, 0.0)


class Rank(NamedTuple):
    """The fullest rank of a pipeline stage; sizes in bytes, `room_bytes` is its pool before it is cut at nothing.

    `first` is the index in its replica of the first of the stage's equal ranks; `adapter_bytes` are slots for adapters,
    which are among the weights as loaded.
    """

    stage: int
    first: int
    weight_bytes: int
    reserve: Reserve
    room_bytes: int
    pool_bytes: int
    block_bytes: int
    blocks: int
    over_bytes: int
    adapter_bytes: int = 0


class Held(NamedTuple):
    """What one replica holds, on its limiting rank."""

    rank: Rank
    ranks: tuple[Rank, ...]
    plan: Plan
    batch: Batch
    flight: Flight
    rules: Rules
    release: ReleaseRules
    loaded: Loaded
    memory: Memory
    context_blocks: int
    limit_blocks: int
    printed_blocks: int
    limit_tokens: int
    low_blocks: int
    high_blocks: int
    refusals: tuple[Refusal, ...]
    slots_note: str

    @property
    def blocks(self) -> int:
        """Blocks of the pool: those of the rank with the fewest."""
        return self.rank.blocks

    @property
    def usable_blocks(self) -> int:
        """Blocks that count when the engine checks whether the longest request fits."""
        return _usable(self.rank, self.plan, self.rules)

    @property
    def starts(self) -> bool:
        """Whether the engine would start: nothing refused, everything placed, and the longest request fits."""
        return not self.refusals and not self.rank.over_bytes and 0 < self.limit_blocks <= self.usable_blocks

    @property
    def sequences(self) -> int:
        """Requests of the context that fit at once; none where the parts exceed the memory."""
        return 0 if self.rank.over_bytes else self.rank.blocks // self.context_blocks

    @property
    def concurrency(self) -> float:
        """Requests of the longest length that fit, as the engine prints it."""
        return self.rank.blocks / self.printed_blocks

    @property
    def capacity_tokens(self) -> int:
        """What this release prints as the size of its cache."""
        if self.rules.paging.printed_size == "concurrency":
            return self.rank.blocks * self.limit_tokens // self.printed_blocks
        groups = len(self.plan.groups) if self.rules.paging.printed_size == "shared" else 1
        return self.rank.blocks // groups * self.plan.smallest_block_tokens * self.flight.context_ranks

    @property
    def longest_limit(self) -> int | None:
        """The longest sequence that the engine would start for, 0 where none; None where length takes no more."""
        return 0 if self.rank.over_bytes else self.plan.longest(self.usable_blocks, self.flight)

    @property
    def parts(self) -> tuple[Part, ...]:
        """The limiting rank's reserve, each part under its name behind `reserve.`; empty where the question set it."""
        return self.rank.reserve.parts

    @property
    def cache_bytes(self) -> int:
        """The pool as allocated: whole blocks, or what the question fixed."""
        if self.memory.pool_bytes is not None:
            return self.memory.pool_bytes
        return self.rank.blocks * self.rank.block_bytes

    @property
    def outside_bytes(self) -> int:
        """What utilization holds back and no other process has taken."""
        back = self.memory.memory_bytes - requested_bytes(self.memory)
        return back if self.rules.runtime.counts_others else max(0, back - self.memory.others_bytes)

    @property
    def hosted_bytes(self) -> int:
        """Weights of the limiting rank that stay in host memory."""
        return self.loaded.hosted_bytes[self.rank.stage]

    @property
    def unused_bytes(self) -> int:
        """What rounding to blocks, a smaller rank, or a fixed pool leaves."""
        rank, memory = self.rank, self.memory
        taken = rank.weight_bytes + rank.reserve.total + self.cache_bytes + self.outside_bytes + memory.others_bytes
        return max(0, memory.memory_bytes - taken)

    def needed_bytes(self, sequences: int) -> int:
        """Pool that so many requests of the context need, and never less than one of the longest length."""
        rank, longest = self.rank, self.limit_blocks + int(self.rules.paging.null_block)
        started = self.plan.needed(rank.stage, longest, rank.block_bytes)
        return max(sequences * self.context_blocks * rank.block_bytes, started)


def hold(setting: Setting, release: ReleaseRules) -> Held:
    """Quote a setting by a release's rules; raises QuoteError for what the release has no meaning for."""
    rules = release.cores[core_of(setting, release)]
    refusals = check(setting, release, rules)
    batch, plan, flight, loaded, ranks = _placed(setting, release, rules)
    context, limit = setting.context_tokens, setting.limit_tokens
    limit_blocks = plan.blocks(limit, flight)
    low, high = _interval(setting, rules, ranks)
    return Held(
        _fewest(ranks), ranks, plan, batch, flight, rules, release, loaded, setting.memory,
        limit_blocks if context == limit else plan.blocks(context, flight),
        limit_blocks, plan.printed(limit_blocks, limit, flight), limit, low, high, refusals, slots_note(setting),
    )  # fmt: skip


def ceiling(setting: Setting, release: ReleaseRules, before: Setting) -> int:
    """Requests of the context that one replica holds, alone: what a lever asks of a change to `before`, held already.

    Raises QuoteError, as `hold` does, where the change meets what the release has no meaning for.
    """
    rules = release.cores[core_of(setting, release)]
    check_change(setting, before, release, rules)
    _, plan, flight, _, ranks = _placed(setting, release, rules)
    if any(rank.over_bytes for rank in ranks):
        return 0
    return min(rank.blocks for rank in ranks) // plan.blocks(setting.context_tokens, flight)


def longest_context(setting: Setting, held: Held) -> int | None:
    """The longest single request of an engine that is started for it; None where length takes no more.

    What the engine estimates is `Held.longest_limit`, which holds back what the length that was asked for takes.
    """
    found, rules = held.longest_limit, held.rules
    if found is None or not _follows_length(setting, rules):
        return found
    if _kept_for(setting, rules, held.batch) == _kept_for(_for_length(setting, found), rules, held.batch):
        return found

    def reach(tokens: int) -> int:
        _, plan, flight, _, ranks = _placed(_for_length(setting, tokens), held.release, rules)
        rank = _fewest(ranks)
        longest = 0 if rank.over_bytes else plan.longest(_usable(rank, plan, rules), flight)
        return MAX_EXACT_INTEGER if longest is None else longest

    return lasting(setting.limit_tokens, found, reach)


def _for_length(setting: Setting, tokens: int) -> Setting:
    """The same with an engine that is started for requests of that length."""
    return setting._replace(context_tokens=tokens, limit_tokens=tokens)


def _follows_length(setting: Setting, rules: Rules) -> bool:
    """Whether an engine that is started for longer requests may keep more for itself."""
    return _reads_whole_prompts(setting, rules) or (_models_reserve(setting) and follows_length(setting, rules))


def _kept_for(setting: Setting, rules: Rules, batch: Batch) -> tuple[Batch, tuple[int, ...]]:
    """What of the longest request decides how much the engine keeps for itself."""
    if _reads_whole_prompts(setting, rules):
        batch = batch_of(setting, rules)
    return batch, length_kept_for(setting, rules, batch) if _models_reserve(setting) else ()


def _reads_whole_prompts(setting: Setting, rules: Rules) -> bool:
    return not rules.batch.tiers and setting.asked.max_batched_tokens is None


def _models_reserve(setting: Setting) -> bool:
    return setting.memory.reserve_bytes is None and setting.memory.pool_bytes is None


def _fewest(ranks: tuple[Rank, ...]) -> Rank:
    """The rank that fills first: of those that take too much the worst."""
    return ranks[0] if len(ranks) == 1 else min(ranks, key=lambda rank: (-rank.over_bytes, rank.blocks))


def _usable(rank: Rank, plan: Plan, rules: Rules) -> int:
    return plan.checked(rank.stage, rank.blocks, rank.pool_bytes) - int(rules.paging.null_block)


def _placed(
    setting: Setting, release: ReleaseRules, rules: Rules
) -> tuple[Batch, Plan, Flight, Loaded, tuple[Rank, ...]]:
    """What a start is made of before anything is read off it; raises QuoteError where that cannot be told."""
    batch, plan = batch_of(setting, rules), plan_of(setting, rules)
    check_offload(setting, release, rules, len(plan.groups))
    flight, loaded = flight_of(setting, rules, batch), loaded_of(setting, rules)
    return batch, plan, flight, loaded, _ranks(setting, rules, batch, loaded, plan)


@lru_cache(maxsize=256)
def _ratio(utilization: float) -> tuple[int, int]:
    """A utilization as the exact ratio that its decimal digits say."""
    exact = Fraction(str(utilization))
    return exact.numerator, exact.denominator


def requested_bytes(memory: Memory) -> int:
    """What utilization asks of the device, rounded up as the engine does; all of it beside a fixed pool."""
    if memory.pool_bytes is not None:
        return memory.memory_bytes
    numerator, denominator = _ratio(memory.utilization)
    return -(-memory.memory_bytes * numerator // denominator)


def available_bytes(memory: Memory, rules: Rules) -> int:
    """What utilization asks for, less what other processes take of it; negative where they take more."""
    requested, others = requested_bytes(memory), memory.others_bytes
    if not rules.runtime.counts_others:
        others = max(0, others - (memory.memory_bytes - requested))
    return requested - others


def _ranks(setting: Setting, rules: Rules, batch: Batch, loaded: Loaded, plan: Plan) -> tuple[Rank, ...]:
    sizes, slots = weight_bytes(setting, loaded), slot_bytes(setting, rules, batch)
    memory, last = setting.memory, len(sizes) - 1
    ranks = []
    for stage, size in enumerate(sizes):
        if memory.reserve_bytes is not None:
            kept = Reserve((), memory.reserve_bytes, 0.0, 0.0)
        elif memory.pool_bytes is not None:
            kept = _NOTHING_KEPT
        else:
            kept = corrected(reserve_of(setting, rules, batch, stage=stage, last=stage == last), memory.correction)
        rank = _rank(setting, rules, stage, weights=size + slots[stage], kept=kept, block=plan.stage_bytes[stage])
        ranks.append(rank._replace(adapter_bytes=slots[stage]))
    return tuple(ranks)


def _rank(  # noqa: PLR0913  # a rank is its stage, its weights, its reserve and its blocks
    setting: Setting, rules: Rules, stage: int, *, weights: int, kept: Reserve, block: int
) -> Rank:
    memory = setting.memory
    room = available_bytes(memory, rules) - weights - kept.total
    pool = max(0, room) if memory.pool_bytes is None else memory.pool_bytes
    over = max(0, -room if memory.pool_bytes is None else memory.pool_bytes - room)
    return Rank(stage, stage * setting.layout.tensor, weights, kept, room, pool, block, pool // block, over)


def _interval(setting: Setting, rules: Rules, ranks: tuple[Rank, ...]) -> tuple[int, int]:
    """Fewest and most blocks that the evidence allows: reserve and weights may each be off, apart from each other."""
    if setting.memory.pool_bytes is not None:
        blocks = min(rank.blocks for rank in ranks)
        return blocks, blocks
    way, correction = rules.constants.interval_share, setting.memory.correction
    share = 0.0 if setting.weight_bytes is not None else _weight_share(setting, rules)
    low, high = [], []
    for rank in ranks:
        weights = (rank.weight_bytes - rank.adapter_bytes) * share
        less, more = math.hypot(rank.reserve.more, weights) * way, math.hypot(rank.reserve.less, weights) * way
        if rank.reserve.parts:
            beside = rank.reserve.beside
            less, more = math.hypot(less, beside.less), math.hypot(more, beside.more)
        if rank.reserve.parts and correction.probes:
            less, more = correction.spread(correction.more, less), correction.spread(correction.less, more)
        low.append(max(0, rank.room_bytes - round(less)) // rank.block_bytes)
        high.append(max(0, rank.room_bytes + round(more)) // rank.block_bytes)
    return min(low), min(high)


def _weight_share(setting: Setting, rules: Rules) -> float:
    spread, number = rules.constants.weight_spread, setting.weights
    if number.name in rules.constants.without_buffers:
        return spread["padded"]
    if setting.model.architecture.compressed:
        return rules.compressed.memory.weight_spread
    if number.element_bits >= _WIDE_BITS:
        return spread["wide"]
    if number.element_bits >= _EIGHT_BITS:
        return spread["eight_bits"]
    architecture = setting.model.architecture
    some = bool(architecture.experts[0]) and number.name in rules.constants.mixed_formats
    return spread["four_bits_mixed" if some or has_states(architecture) else "four_bits"]
