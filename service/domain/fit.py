"""How many sequences fit: the limiting rank of a layout, its ledger, and what would change the number.

sequences = floor((pool - shared prefix) / (bytes of a sequence - shared prefix)),
pool = memory - held back - others - reserve - weights, on the rank that fills first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from service.domain.loads import RankLoad, rank_loads, scaled, whole_weights
from service.domain.units import MAX_EXACT_INTEGER, ceil_bytes, ceil_div

if TYPE_CHECKING:
    from service.domain.ledger import Budget
    from service.domain.precision import CacheFormat, WeightFormat
    from service.domain.question import Scenario


class Held(NamedTuple):
    """What one rank holds of sequences of one length; all sizes in bytes on that rank."""

    load: RankLoad
    pool_bytes: int
    overcommitted_bytes: int
    prefix_bytes: int
    own_bytes: int
    """Bytes of one sequence beside the shared prefix; 0 on a rank whose layers keep no cache."""

    @property
    def sequences(self) -> int:
        """Sequences that the pool holds beside the prefix; as many as can be counted where they take nothing."""
        return 0 if self.overcommitted_bytes else _counted(self.pool_bytes, self.prefix_bytes, self.own_bytes)

    @property
    def fullness(self) -> tuple[int, Fraction]:
        """Orders ranks: the most overcommitted first, then the fewest sequences, unrounded."""
        if not self.own_bytes:
            return (-self.overcommitted_bytes, Fraction(MAX_EXACT_INTEGER))
        return (-self.overcommitted_bytes, Fraction(self.pool_bytes - self.prefix_bytes, self.own_bytes))

    def needed_bytes(self, sequences: int) -> int:
        """Pool that so many sequences need."""
        return self.prefix_bytes + sequences * self.own_bytes


class Capacity(NamedTuple):
    """What one replica holds: on the rank that fills first at the context, and at the longest length."""

    context: Held
    limit: Held

    @property
    def sequences(self) -> int:
        """Sequences of the context."""
        return self.context.sequences

    @property
    def starts(self) -> bool:
        """Whether everything is placed and one sequence of the longest length fits every rank."""
        return self.limit.sequences > 0

    @property
    def concurrency(self) -> float:
        """Sequences of the longest length that fit, unrounded."""
        held = self.limit
        if held.overcommitted_bytes or not held.own_bytes:
            return 0.0
        return max(0, held.pool_bytes - held.prefix_bytes) / held.own_bytes

    def capacity_tokens(self, limit_tokens: int) -> int:
        """floor(concurrency x limit), in integers."""
        held = self.limit
        if held.overcommitted_bytes or not held.own_bytes:
            return 0
        return max(0, held.pool_bytes - held.prefix_bytes) * limit_tokens // held.own_bytes


def loads_of(
    scenario: Scenario, weights: WeightFormat | None = None, cache: CacheFormat | None = None
) -> tuple[RankLoad, ...]:
    """The ranks of the layout, with the question's own weight size where it gives one; other formats where given."""
    weights, cache = weights or scenario.weights, cache or scenario.cache
    loads = rank_loads(scenario.model, weights, cache, scenario.layout)
    if scenario.weight_bytes is None and scenario.parameters is None:
        return loads
    own = whole_weights(scenario.model, weights).bytes
    return scaled(loads, whole_weight_bytes(scenario, weights), own)


def whole_weight_bytes(scenario: Scenario, weights: WeightFormat | None = None) -> int:
    """Bytes of the whole model's weights: the question's own, its parameter count in the format, or the model's."""
    if scenario.weight_bytes is not None:
        return scenario.weight_bytes
    number = weights or scenario.weights
    held = whole_weights(scenario.model, number).bytes
    if scenario.parameters is None:
        return held
    if number.uniform_bits is not None:
        return ceil_bytes(number.uniform_bits * scenario.parameters)
    return ceil_div(held * scenario.parameters, scenario.model.architecture.parameters)


def capacity_of(scenario: Scenario, loads: tuple[RankLoad, ...]) -> Capacity:
    """The capacity of one replica of those ranks, on the ones that fill first; of equals, the first."""
    budget, prefix = scenario.budget, scenario.prefix_tokens
    context = fullest(loads, budget, scenario.context_tokens, prefix)
    if scenario.limit_tokens == scenario.context_tokens:
        return Capacity(context, context)
    return Capacity(context, fullest(loads, budget, scenario.limit_tokens, prefix))


def fullest(loads: tuple[RankLoad, ...], budget: Budget, tokens: int, prefix: int) -> Held:
    """What the rank that fills first holds of sequences of that length."""
    if len(loads) == 1:
        return held_by(loads[0], budget, tokens, prefix)
    return min((held_by(load, budget, tokens, prefix) for load in loads), key=_fullness)


def sequences(loads: tuple[RankLoad, ...], budget: Budget, tokens: int, prefix: int) -> int:
    """Sequences of one replica alone, for the many changes of which nothing else is asked."""
    fewest = MAX_EXACT_INTEGER
    for load in loads:
        pool, overcommitted = budget.placed(load.weight_bytes)
        if overcommitted:
            return 0
        shared = load.prefix_bytes(tokens, prefix) if prefix else 0
        fewest = min(fewest, _counted(pool, shared, load.sequence_bytes(tokens) - shared))
    return fewest


def held_by(load: RankLoad, budget: Budget, tokens: int, prefix: int) -> Held:
    """What one rank holds of sequences of that length."""
    shared = load.prefix_bytes(tokens, prefix) if prefix else 0
    pool, overcommitted = budget.placed(load.weight_bytes)
    return Held(load, pool, overcommitted, shared, load.sequence_bytes(tokens) - shared)


def _counted(pool: int, prefix: int, own: int) -> int:
    if pool < prefix:
        return 0
    return (pool - prefix) // own if own else MAX_EXACT_INTEGER


def _fullness(held: Held) -> tuple[int, Fraction]:
    return held.fullness


def longest_context(loads: tuple[RankLoad, ...], budget: Budget) -> int | None:
    """The longest single sequence that every rank holds; None where a longer one takes no more memory."""
    limits = []
    for load in loads:
        pool, overcommitted = budget.placed(load.weight_bytes)
        if overcommitted:
            return 0
        longest = load.longest(pool)
        if longest is not None:
            limits.append(longest)
    return min(limits, default=None)
