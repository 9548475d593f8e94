"""How many sequences fit: the limiting rank of a layout, its ledger, and what would change the number.

sequences = floor((pool - shared prefix) / (bytes of a sequence - shared prefix)),
pool = memory - held back - others - reserve - weights, on the rank that fills first.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from service.domain.loads import RankLoad, rank_loads, scaled, whole_load
from service.domain.units import ceil_bytes, ceil_div

if TYPE_CHECKING:
    from service.domain.ledger import Budget
    from service.domain.precision import CacheFormat, WeightFormat
    from service.domain.question import Scenario


class Capacity(NamedTuple):
    """What one replica holds, on its limiting rank; all sizes in bytes on that rank."""

    load: RankLoad
    pool_bytes: int
    overcommitted_bytes: int
    prefix_bytes: int
    own_bytes: int
    """Bytes of one sequence beside the shared prefix."""
    limit_own_bytes: int
    """The same for one sequence of the longest length the engine is started for."""
    limit_prefix_bytes: int
    sequences: int

    @property
    def starts(self) -> bool:
        """Whether everything is placed and one sequence of the longest length fits."""
        return self.overcommitted_bytes == 0 and self.pool_bytes >= self.limit_own_bytes + self.limit_prefix_bytes

    @property
    def concurrency(self) -> float:
        """Sequences of the longest length that fit, unrounded."""
        room = max(0, self.pool_bytes - self.limit_prefix_bytes)
        return room / self.limit_own_bytes if self.limit_own_bytes else 0.0

    def capacity_tokens(self, limit_tokens: int) -> int:
        """floor(concurrency x limit), in integers."""
        room = max(0, self.pool_bytes - self.limit_prefix_bytes)
        return room * limit_tokens // self.limit_own_bytes if self.limit_own_bytes else 0

    def needed_bytes(self, sequences: int) -> int:
        """Pool that so many sequences need, and never less than one of the longest length."""
        return max(self.prefix_bytes + sequences * self.own_bytes, self.limit_own_bytes + self.limit_prefix_bytes)


def loads_of(
    scenario: Scenario, weights: WeightFormat | None = None, cache: CacheFormat | None = None
) -> tuple[RankLoad, ...]:
    """The ranks of the layout, with the question's own weight size where it gives one; other formats where given."""
    weights, cache = weights or scenario.weights, cache or scenario.cache
    loads = rank_loads(scenario.model, weights, cache, scenario.layout)
    if scenario.weight_bytes is None and scenario.parameters is None:
        return loads
    own = whole_load(scenario.model, weights, cache).weight_bytes
    return scaled(loads, whole_weight_bytes(scenario, weights), own)


def whole_weight_bytes(scenario: Scenario, weights: WeightFormat | None = None) -> int:
    """Bytes of the whole model's weights: the question's own, its parameter count in the format, or the model's."""
    if scenario.weight_bytes is not None:
        return scenario.weight_bytes
    number = weights or scenario.weights
    held = whole_load(scenario.model, number, scenario.cache).weight_bytes
    if scenario.parameters is None:
        return held
    if number.uniform_bits is not None:
        return ceil_bytes(number.uniform_bits * scenario.parameters)
    return ceil_div(held * scenario.parameters, scenario.model.architecture.parameters)


def capacity_of(scenario: Scenario) -> Capacity:
    """The capacity of one replica, on the rank that fills first; of equals, the first."""
    loads = loads_of(scenario)
    if len(loads) == 1:
        return _capacity(loads[0], scenario)
    return min((_capacity(load, scenario) for load in loads), key=_fullness)


def sequences(loads: tuple[RankLoad, ...], budget: Budget, context: int, prefix: int) -> int:
    """Sequences of one replica alone, for the many changes of which nothing else is asked."""
    if len(loads) == 1:
        return _sequences(loads[0], budget, context, prefix)[0]
    return min(_sequences(load, budget, context, prefix)[0] for load in loads)


def _fullness(held: Capacity) -> tuple[int, Fraction]:
    """Overcommitted ranks come first, the worst of them before the others; then the fewest sequences, unrounded."""
    room = Fraction(held.pool_bytes - held.prefix_bytes, held.own_bytes or 1)
    return (-held.overcommitted_bytes, room)


def _sequences(load: RankLoad, budget: Budget, context: int, prefix: int) -> tuple[int, int, int, int]:
    """Sequences, pool, shared prefix and bytes of a sequence beside it, on one rank."""
    pool = budget.pool(load.weight_bytes)
    shared = load.prefix_bytes(context, prefix) if prefix else 0
    own = load.sequence_bytes(context) - shared
    if not own or pool <= shared or (budget.pool_bytes is not None and budget.overcommitted(load.weight_bytes)):
        return 0, pool, shared, own
    return (pool - shared) // own, pool, shared, own


def _capacity(load: RankLoad, scenario: Scenario) -> Capacity:
    context, limit, prefix = scenario.context_tokens, scenario.limit_tokens, scenario.prefix_tokens
    found, pool, shared, own = _sequences(load, scenario.budget, context, prefix)
    limit_shared = shared if limit == context else load.prefix_bytes(limit, prefix)
    limit_own = own if limit == context else load.sequence_bytes(limit) - limit_shared
    over = scenario.budget.overcommitted(load.weight_bytes)
    return Capacity(load, pool, over, shared, own, limit_own, limit_shared, found)


def longest_context(loads: tuple[RankLoad, ...], budget: Budget) -> int | None:
    """The longest single sequence that every rank holds; None where a longer one takes no more memory."""
    limits = []
    for load in loads:
        if budget.overcommitted(load.weight_bytes):
            return 0
        longest = load.longest(budget.pool(load.weight_bytes))
        if longest is not None:
            limits.append(longest)
    return min(limits, default=None)
