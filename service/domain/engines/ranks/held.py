"""What one replica of a setting holds, on the rank that fills first; the parts of a rank add up to the byte."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from service.domain.ledger import UNCORRECTED, Correction
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from service.domain.engines.ranks.pool import Pool
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad

_LONGEST = 1 << 53


class Part(NamedTuple):
    """A part of the reserve: its name in the ledger behind `reserve.`, its size as evidence spreads it, and why."""

    name: str
    low: int
    middle: int
    high: int
    note: str
    source: str = "modelled"


@dataclass(frozen=True, slots=True)
class Rank:
    """One rank: `held_back` is what the engine leaves free for its own work beside the cache's budget.

    `budget_bytes` is what is left for the cache, negative where the rest takes too much; `weight_spread_bytes` by how
    much weights as loaded may differ.
    """

    load: RankLoad
    parts: tuple[Part, ...]
    held_back_bytes: int
    budget_bytes: int
    over_bytes: int
    pool: Pool
    weight_spread_bytes: int = 0
    correction: Correction = UNCORRECTED

    @property
    def pool_bytes(self) -> int:
        """The budget, nothing where there is none."""
        return max(0, self.budget_bytes)

    @property
    def reserve_bytes(self) -> int:
        """All parts of the reserve."""
        return sum(part.middle for part in self.parts)

    def spread(self) -> tuple[int, int]:
        """By how much the budget may be smaller or larger, parts being off apart from each other."""
        weights = self.weight_spread_bytes
        less = math.hypot(weights, *(part.high - part.middle for part in self.parts))
        more = math.hypot(weights, *(part.middle - part.low for part in self.parts))
        learned = self.correction
        if learned.probes:
            less, more = learned.spread(learned.more, less), learned.spread(learned.less, more)
        return round(less), round(more)


class Terms(NamedTuple):
    """What of an engine's answer does not follow from its ranks.

    `copies` are caches side by side inside a replica (attention data parallel), `most_sequences` what one of them runs
    at most, `needs_limit` whether the engine refuses to start where the longest sequence does not fit.
    """

    version: str
    copies: int
    most_sequences: int
    needs_limit: bool
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Held:
    """What a setting holds, in the terms of an answer; counts are those of one replica, each worked out once."""

    setting: Setting
    ranks: tuple[Rank, ...]
    rank: Rank
    terms: Terms

    @property
    def over(self) -> bool:
        """Whether the parts exceed the memory."""
        return self.rank.over_bytes > 0

    @cached_property
    def sequences(self) -> int:
        """Sequences of the context that fit at once."""
        if self.over:
            return 0
        context = self.setting.scenario.context_tokens
        return self.terms.copies * min(rank.pool.sequences(rank.pool_bytes, context) for rank in self.ranks)

    @property
    def running(self) -> int:
        """What the engine lets run of them, its own limit counting the states that it keeps."""
        return min(self.sequences, self.terms.copies * self.terms.most_sequences)

    @cached_property
    def concurrency(self) -> float:
        """Sequences of the longest length that fit, unrounded."""
        limit = self.setting.scenario.limit_tokens
        return self.terms.copies * self.rank.pool.concurrency(self.rank.pool_bytes, limit)

    @cached_property
    def capacity_tokens(self) -> int:
        """What the engine prints as the size of one cache."""
        return self.rank.pool.tokens(self.rank.pool_bytes)

    @cached_property
    def starts(self) -> bool:
        """Whether the engine would start: everything placed, and room for what it insists on."""
        if self.over or not self.capacity_tokens:
            return False
        limit = self.setting.scenario.limit_tokens
        return not self.terms.needs_limit or all(r.pool.holds_limit(r.pool_bytes, limit) for r in self.ranks)

    @cached_property
    def longest(self) -> int | None:
        """The longest single sequence that every rank holds; None where length takes no more."""
        if self.over:
            return 0
        found = [rank.pool.longest(rank.pool_bytes, _LONGEST) for rank in self.ranks]
        return min((length for length in found if length is not None), default=None)

    def needed(self, sequences: int) -> int:
        """Budget of the limiting rank that so many sequences need."""
        each = ceil_div(sequences, self.terms.copies)
        return self.rank.pool.needed(each, self.setting.scenario.context_tokens)

    def fits(self, sequences: int, context_tokens: int) -> bool:
        """Whether so many sequences of that length fit."""
        each = ceil_div(sequences, self.terms.copies)
        return not self.over and all(r.pool.sequences(r.pool_bytes, context_tokens) >= each for r in self.ranks)


def held(setting: Setting, ranks: tuple[Rank, ...], terms: Terms) -> Held:
    """Find the rank that fills first: of those that take too much the worst, else the one with the fewest tokens."""
    limit = setting.scenario.limit_tokens

    def fullness(rank: Rank) -> tuple[int, float]:
        return -rank.over_bytes, rank.pool.concurrency(rank.pool_bytes, limit)

    return Held(setting, ranks, ranks[0] if len(ranks) == 1 else min(ranks, key=fullness), terms)


def as_measured(rank: Rank, correction: Correction) -> Rank:
    """The rank with what probes measured of its reserve: more of it as runtime, less of it off the largest parts."""
    if not correction.probes or not rank.parts:
        return rank
    beyond = left = max(correction.bytes, -rank.reserve_bytes)
    parts = {part.name: part for part in rank.parts}
    for name in ["runtime", *(part.name for part in sorted(rank.parts, key=_size, reverse=True))]:
        known = parts.get(name, Part(name, 0, 0, 0, ""))
        moved = max(left, -known.middle)
        if moved:
            low, middle, high = (max(0, size + moved) for size in (known.low, known.middle, known.high))
            note = f"{known.note}, {correction.note}".removeprefix(", ")
            parts[name] = Part(name, low, middle, high, note, "calibrated")
        left -= moved
    budget = rank.budget_bytes - beyond
    over = max(0, rank.pool.states(max(0, budget)) - budget)
    kept = tuple(parts.values())
    return replace(rank, parts=kept, budget_bytes=budget, over_bytes=over, correction=correction)


def _size(part: Part) -> int:
    return part.middle


def part(name: str, span: tuple[int, int, int], note: str) -> Part:
    """A part from a span of the catalog: low, middle and high."""
    return Part(name, *span, note)


def given_reserve(setting: Setting) -> tuple[Part, ...]:
    """The reserve that the question sets in place of every modelled part; empty where it sets none."""
    if setting.asked.get("reserve_bytes") is None:
        return ()
    size = setting.scenario.budget.reserve_bytes
    return (Part("", size, size, size, "as asked"),)
