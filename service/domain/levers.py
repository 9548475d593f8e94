"""Changes to a question and the ceiling each would give: smaller items, shared ones, space released."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.fit import loads_of, sequences
from service.domain.parallel import divides

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.ledger import Budget
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question, Scenario

_NARROWER = ("int8", "int4")
_MAX_RANKS = 64


class Changed(NamedTuple):
    """A question's memory with one change: the ranks' loads, the budget, and the lengths that count."""

    loads: tuple[RankLoad, ...]
    budget: Budget
    context_tokens: int
    prefix_tokens: int


Candidate = tuple[str, dict[str, Any], Changed]


def levers(question: Question, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
    """Every change that raises the ceiling of the whole deployment, the most first."""
    found = []
    data = question.scenario.layout.data
    for move, change, changed in _candidates(question, catalog):
        reached = sequences(*changed) * data
        if reached > ceiling:
            found.append({"move": move, "change": change, "max_sequences": reached, "gain": reached - ceiling})
    found.sort(key=_gain, reverse=True)
    return found


def _gain(lever: dict[str, Any]) -> int:
    gain: int = lever["gain"]
    return gain


def nearest_change(question: Question, found: list[dict[str, Any]], batch: int) -> dict[str, Any] | None:
    """The smallest change that makes a batch fit: a lever that is enough, else the fewest GPUs, else None."""
    for lever in reversed(found):
        if lever["max_sequences"] >= batch:
            change: dict[str, Any] = lever["change"]
            return change
    scenario = question.scenario
    for tensor in _more_ranks(scenario):
        wider = scenario._replace(layout=replace(scenario.layout, tensor=tensor))
        held = sequences(loads_of(wider), wider.budget, wider.context_tokens, wider.prefix_tokens)
        if held * wider.layout.data >= batch:
            return {"tensor_parallel": tensor}
    return None


def _more_ranks(scenario: Scenario) -> Iterator[int]:
    tensor = scenario.layout.tensor * 2
    while tensor <= _MAX_RANKS:
        if divides(tensor, scenario.model.architecture):
            yield tensor
        tensor *= 2


def _candidates(question: Question, catalog: Catalog) -> Iterator[Candidate]:
    scenario = question.scenario
    budget, context, prefix = scenario.budget, scenario.context_tokens, scenario.prefix_tokens
    for change, loads in _narrower(scenario, catalog):
        yield "smaller", change, Changed(loads, budget, context, prefix)
    loads, half = loads_of(scenario), context // 2
    if half > prefix:
        yield "smaller", {"context_tokens": half}, Changed(loads, budget, half, prefix)
        yield "shared", {"shared_prefix_tokens": half}, Changed(loads, budget, context, half)
    for change, roomier in _released(question):
        yield "released", change, Changed(loads, roomier, context, prefix)


def _narrower(scenario: Scenario, catalog: Catalog) -> Iterator[tuple[dict[str, Any], tuple[RankLoad, ...]]]:
    for name in _NARROWER:
        number = catalog.format(name)
        cache, weights = number.cache, number.weight
        if cache and cache.element_bits < scenario.cache.element_bits:
            yield {"kv_dtype": name}, loads_of(scenario, cache=cache)
        if weights and scenario.weight_bytes is None and weights.element_bits < scenario.weights.element_bits:
            yield {"weight_dtype": name}, loads_of(scenario, weights=weights)


def _released(question: Question) -> Iterator[tuple[dict[str, Any], Budget]]:
    """Space that nobody uses: memory not counted, held back, taken by others, or reserved twice over."""
    budget = question.scenario.budget
    visible = question.gpu.visible_bytes if question.gpu else None
    if visible and visible > budget.memory_bytes and "memory_bytes" not in question.echo.asked:
        outside = visible * budget.outside_bytes // budget.memory_bytes
        yield {"memory_basis": "visible"}, budget._replace(memory_bytes=visible, outside_bytes=outside)
    if budget.pool_bytes is not None:
        return
    if budget.outside_bytes:
        yield {"memory_utilization": 1.0}, budget._replace(outside_bytes=0)
    if budget.others_bytes:
        yield {"memory_used_by_others_bytes": 0}, budget._replace(others_bytes=0)
    if budget.reserve_bytes:
        half = budget.reserve_bytes // 2
        yield {"reserve_bytes": half}, budget._replace(reserve_bytes=half)
