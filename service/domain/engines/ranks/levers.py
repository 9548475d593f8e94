"""Changes to a question that leave an engine more cache or let more sequences share it, and the ceiling each gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.errors import QuoteError
from service.domain.stored import weights_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from service.domain.engines.ranks.held import Held
    from service.domain.engines.ranks.setting import Setting
    from service.domain.question import Catalog

Candidate = tuple[str, dict[str, Any], "Setting"]
"""The move, the change to the question, and the setting it gives."""


def levers(candidates: Iterable[Candidate], hold: Callable[[Setting], Held], ceiling: int) -> list[dict[str, Any]]:
    """Every change that the engine takes and that raises the ceiling, the most first."""
    found: list[dict[str, Any]] = []
    for move, change, changed in candidates:
        try:
            reached = hold(changed).sequences * changed.scenario.layout.data
        except QuoteError:
            continue
        if reached > ceiling:
            found.append({"move": move, "change": change, "max_sequences": reached, "gain": reached - ceiling})
    found.sort(key=_gain, reverse=True)
    return found


def _gain(lever: dict[str, Any]) -> int:
    gain: int = lever["gain"]
    return gain


def narrower(setting: Setting, catalog: Catalog, caches: Sequence[str], weights: Sequence[str]) -> Iterator[Candidate]:
    """Narrower caches, and narrower weights where the cache would stay as it is."""
    scenario = setting.scenario
    for name in caches:
        cache = catalog.format(name).cache
        if cache and cache.element_bits < scenario.cache.element_bits and _runs(setting, name):
            yield "smaller", {"kv_dtype": name}, setting._replace(scenario=scenario._replace(cache=cache))
    if scenario.weight_bytes is not None or not _keeps_cache(setting):
        return
    for name in weights:
        number = weights_for(catalog.format(name), scenario.model, catalog)
        if number.element_bits < scenario.weights.element_bits:
            changed = scenario._replace(weights=number)
            yield "smaller", {"weight_dtype": name}, setting._replace(scenario=changed)


def shorter(setting: Setting) -> Iterator[Candidate]:
    """Half the context, and half the longest length with it where the question did not set that."""
    scenario, half = setting.scenario, setting.scenario.context_tokens // 2
    if half:
        limit = scenario.limit_tokens if setting.asked.get("context_limit_tokens") is not None else half
        changed = scenario._replace(context_tokens=half, limit_tokens=limit)
        yield "smaller", {"context_tokens": half}, setting._replace(scenario=changed)


def released(setting: Setting, *, over: bool) -> Iterator[Candidate]:
    """Memory that others hold; beside a cache of a given size only where everything is `over` the memory."""
    scenario = setting.scenario
    if scenario.budget.others_bytes and (over or scenario.budget.pool_bytes is None):
        budget = scenario.budget._replace(others_bytes=0)
        budgets = tuple(each._replace(others_bytes=0) for each in scenario.budgets)
        change = {"memory_used_by_others_bytes": 0}
        yield "released", change, setting._replace(scenario=scenario._replace(budget=budget, budgets=budgets))


def _runs(setting: Setting, name: str) -> bool:
    """Whether the device computes in a type, where that is known."""
    gpu = setting.gpu
    return not name.startswith("fp8") or gpu is None or not gpu.peaks or gpu.runs("fp8")


def _keeps_cache(setting: Setting) -> bool:
    """Whether the cache's type does not follow that of the weights."""
    scenario = setting.scenario
    return setting.asked.get("kv_dtype") is not None or scenario.cache.name in {"bf16", "fp16"}
