"""What a textbook holds: the pool is what is left, and a sequence takes the bytes of its tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from service.domain import explain
from service.domain.errors import ValidationError
from service.domain.fit import capacity_of, loads_of, longest_context
from service.domain.fit import sequences as counted
from service.domain.holding import Holding
from service.domain.levers import levers
from service.domain.parallel import check_layout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.question import Catalog, Question

_EXACT = "exact arithmetic of the stated inputs, nothing modelled"


class PlainHolding(Holding):
    """Engine `none`, of which nothing is paged and nothing limits how many run."""

    blocks = block_tokens = groups = None

    def __init__(self, question: Question) -> None:
        """Find the rank that fills first."""
        self.question = question
        scenario = question.scenario
        self.loads = loads_of(scenario)
        self.capacity = capacity = capacity_of(scenario, self.loads)
        self.held = capacity.context
        self.load = self.held.load
        self.sequences = self.running = self.held.sequences
        self.concurrency = capacity.concurrency
        self.capacity_tokens = capacity.capacity_tokens(scenario.limit_tokens)
        self.starts = capacity.starts
        self.pool_bytes = self.held.pool_bytes

    @cached_property
    def longest_context(self) -> int | None:  # type: ignore[override]  # only /fit asks, and once
        """The longest single sequence that every rank holds."""
        return longest_context(self.loads, self.question.scenario.budget)

    @property
    def longest_limit(self) -> int | None:  # type: ignore[override]  # as above
        """The same: nothing of an engine grows with the length that it is started for."""
        return self.longest_context

    def fits(self, sequences: int, context_tokens: int) -> bool:
        """Whether every rank holds the shared prefix and what each sequence adds."""
        scenario = self.question.scenario
        return counted(self.loads, scenario.budget, context_tokens, scenario.prefix_tokens) >= sequences

    def keeps(self, change: Mapping[str, Any]) -> bool:
        """A context that is asked alone is also the longest; what a GPU shows may have been measured otherwise."""
        return "context_limit_tokens" not in self.question.echo.asked and "memory_basis" not in change

    def fits_ranks(self, tensor: int, sequences: int) -> bool:
        """The layout is all that the ranks of a textbook change."""
        scenario = self.question.scenario
        layout = replace(scenario.layout, tensor=tensor)
        try:
            check_layout(layout, scenario.model.architecture)
        except ValidationError:
            return False
        wider = scenario._replace(layout=layout)
        capacity = capacity_of(wider, loads_of(wider))
        return capacity.starts and capacity.sequences >= sequences

    def ledger(self) -> dict[str, Any]:
        """Weights, reserve, cache and what utilization, others and rounding take."""
        return explain.ledger(self.question, self.held)

    def constraint(self) -> str:
        """Weights, reserve, other processes, the longest length or the cache."""
        return explain.constraint(self.question, self.capacity)

    def gain_bytes(self) -> int:
        """What one more sequence adds, beside what is left over."""
        held = self.held
        return max(0, held.needed_bytes(held.sequences + 1) - held.pool_bytes) + held.overcommitted_bytes

    def shortage_bytes(self, sequences: int) -> tuple[int, int]:
        """Of the whole device, or of a cache whose size the question fixed; on the rank that refuses."""
        budget, held = self.question.scenario.budget, self.held
        cache = held.needed_bytes(sequences)
        if held.sequences >= sequences:
            held, cache = self.capacity.limit, self.capacity.limit.needed_bytes(1)
        if budget.pool_bytes is not None and not held.overcommitted_bytes:
            return cache, budget.pool_bytes
        needed = held.load.weight_bytes + budget.reserve_bytes + max(cache, budget.pool_bytes or 0)
        room = budget.memory_bytes - budget.outside_bytes - budget.others_bytes
        return needed - min(0, room), max(0, room)

    def interval(self) -> dict[str, Any]:
        """A point: nothing of it is modelled."""
        ceiling = self.sequences * self.question.scenario.layout.data
        return {
            "kv_cache_bytes": [self.pool_bytes, self.pool_bytes],
            "max_concurrency": [self.concurrency, self.concurrency],
            "max_sequences": [ceiling, ceiling],
            "basis": _EXACT,
        }

    def explain(self) -> list[str]:
        """Memory less its parts, and the division."""
        reserve = self.question.scenario.budget.reserve_bytes
        self.question.assumptions.append(f"reserve of {reserve:,} bytes a GPU")
        return explain.derivation(self.question, self.held)

    def levers(self, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
        """Narrower types, shorter and shared contexts, memory that nobody uses."""
        return levers(self.question, self.loads, catalog, ceiling)
