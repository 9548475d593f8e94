"""Changes to a question and the ceiling each would give: smaller items, shared ones, space released."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from service.domain.fit import loads_of, sequences
from service.domain.stored import weights_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.ledger import Budget
    from service.domain.loads import RankLoad
    from service.domain.precision import CacheFormat
    from service.domain.question import Catalog, Question

_NARROWER = ("int8", "int4")


# A question's memory with one change: the ranks' loads, the budget, the tokens of the context and of the prefix.
Changed: TypeAlias = "tuple[tuple[RankLoad, ...], Budget, int, int]"
Candidate: TypeAlias = tuple[str, dict[str, Any], Changed]


def levers(question: Question, loads: tuple[RankLoad, ...], catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
    """Every change that raises the ceiling of the whole deployment, the most first; `loads` are the question's own."""
    found = []
    data = question.scenario.layout.data
    for move, change, changed in _candidates(question, loads, catalog):
        reached = sequences(*changed) * data
        if reached > ceiling:
            found.append({"move": move, "change": change, "max_sequences": reached, "gain": reached - ceiling})
    found.sort(key=_gain, reverse=True)
    return found


def _gain(lever: dict[str, Any]) -> int:
    gain: int = lever["gain"]
    return gain


def _candidates(question: Question, loads: tuple[RankLoad, ...], catalog: Catalog) -> Iterator[Candidate]:
    scenario = question.scenario
    budget, context, prefix = scenario.budget, scenario.context_tokens, scenario.prefix_tokens
    for change, narrower in _narrower(question, catalog):
        yield "smaller", change, (narrower, budget, context, prefix)
    half = context // 2
    if half > prefix:
        yield "smaller", {"context_tokens": half}, (loads, budget, half, prefix)
        yield "shared", {"shared_prefix_tokens": half}, (loads, budget, context, half)
    for change, roomier in _released(question):
        yield "released", change, (loads, roomier, context, prefix)


def _narrower(question: Question, catalog: Catalog) -> Iterator[tuple[dict[str, Any], tuple[RankLoad, ...]]]:
    scenario = question.scenario
    for name in _NARROWER:
        number = catalog.format(name)
        cache, weight = number.cache, None if scenario.weight_bytes is not None else number.weight
        if cache and cache.element_bits < scenario.cache.element_bits:
            yield {"kv_dtype": name}, loads_of(scenario, cache=cache)
        if weight and weight.element_bits < scenario.weights.element_bits:
            weights = weights_for(number, scenario.model, catalog)
            yield {"weight_dtype": name}, loads_of(scenario, weights, _cache_beside(name, question, catalog))


def _cache_beside(weight_name: str, question: Question, catalog: Catalog) -> CacheFormat | None:
    """The cache's type where it follows from the weights' and was not asked; None leaves it."""
    asked = question.echo.asked.get("kv_dtype")
    if asked not in {None, "auto"}:
        return None
    name = question.engine.cache_name(weight_name, question.scenario.model, weight_name, question.gpu)
    return catalog.format(name, "/kv_dtype").cache


def _released(question: Question) -> Iterator[tuple[dict[str, Any], Budget]]:
    """Space that nobody uses: memory not counted, held back, taken by others, or reserved twice over."""
    budget = question.scenario.budget
    if budget.others_bytes:
        yield {"memory_used_by_others_bytes": 0}, budget._replace(others_bytes=0)
    visible = question.gpu.visible_bytes if question.gpu else None
    if visible and visible > budget.memory_bytes and "memory_bytes" not in question.echo.asked:
        outside = visible * budget.outside_bytes // budget.memory_bytes
        yield {"memory_basis": "visible"}, budget._replace(memory_bytes=visible, outside_bytes=outside)
    if budget.pool_bytes is not None:
        return
    if budget.outside_bytes:
        yield {"memory_utilization": 1.0}, budget._replace(outside_bytes=0)
    if budget.reserve_bytes:
        half = budget.reserve_bytes // 2
        yield {"reserve_bytes": half}, budget._replace(reserve_bytes=half)
