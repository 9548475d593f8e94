"""Changes to a question that leave vLLM more cache or let more requests share it, and the ceiling each gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.capacity import ceiling as ceiling_of
from service.domain.errors import QuoteError
from service.domain.precision import NumberFormat
from service.domain.question import resolve
from service.domain.stored import weights_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.vllm.capacity import Held
    from service.domain.engines.vllm.setting import Setting
    from service.domain.question import Catalog, Question

_EIGHT_BITS = 8
_NARROWER_WEIGHTS = ("fp8", "w4a16")
_ROOMY_UTILIZATION = 0.95
_FEW_SEQUENCES = 256


def levers(question: Question, setting: Setting, held: Held, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
    """Every change that the release takes and that raises the ceiling of the whole deployment, the most first."""
    found: list[dict[str, Any]] = []
    for move, change, candidate in _candidates(question, setting, held, catalog):
        try:
            changed = _as_taught(question, candidate, held, change, catalog)
            reached = ceiling_of(changed, held.release, setting) * setting.layout.data
        except QuoteError:
            continue
        if reached > ceiling:
            found.append({"move": move, "change": change, "max_sequences": reached, "gain": reached - ceiling})
    found.sort(key=_gain, reverse=True)
    return found


def _as_taught(question: Question, changed: Setting, held: Held, change: dict[str, Any], catalog: Catalog) -> Setting:
    """The setting with what measurements taught of engines that are started for batches like its own."""
    if not held.memory.correction.probes:
        return changed
    batch = batch_of(changed, held.rules)
    if (batch.tokens, batch.sequences) == (held.batch.tokens, held.batch.sequences):
        return changed
    asked = resolve({**question.echo.asked, **change}, catalog, question.named)
    return changed._replace(memory=changed.memory._replace(correction=asked.scenario.budget.correction))


def _gain(lever: dict[str, Any]) -> int:
    gain: int = lever["gain"]
    return gain


def _candidates(
    question: Question, setting: Setting, held: Held, catalog: Catalog
) -> Iterator[tuple[str, dict[str, Any], Setting]]:
    yield from _narrower(question, setting, catalog)
    half = setting.context_tokens // 2
    if half:
        own_limit = "context_limit_tokens" in question.echo.asked
        limit = setting.limit_tokens if own_limit else half
        yield "smaller", {"context_tokens": half}, setting._replace(context_tokens=half, limit_tokens=limit)
    slots = setting.asked.max_loras or 0
    if slots > 1:
        fewer = setting.asked._replace(max_loras=slots // 2)
        yield "smaller", {"max_loras": slots // 2}, setting._replace(asked=fewer)
    yield from _released(setting, held)


def _narrower(question: Question, setting: Setting, catalog: Catalog) -> Iterator[tuple[str, dict[str, Any], Setting]]:
    types = setting.device.types
    cache = catalog.format("fp8").cache
    if cache and setting.cache.element_bits > _EIGHT_BITS and (not types or "fp8" in types):
        yield "smaller", {"kv_dtype": "fp8"}, setting._replace(cache=cache)
    if setting.weight_bytes is not None:
        return
    asked = question.echo.asked.get("kv_dtype") not in {None, "auto"}
    keeps_cache = asked or setting.cache.name == setting.model.compute_type
    for name in _NARROWER_WEIGHTS:
        number: NumberFormat = catalog.format(name)
        if keeps_cache and number.weight and number.weight.element_bits < setting.weights.element_bits:
            weights = weights_for(number, setting.model, catalog)
            yield "smaller", {"weight_dtype": name}, setting._replace(weights=weights)


def _released(setting: Setting, held: Held) -> Iterator[tuple[str, dict[str, Any], Setting]]:
    memory, asked = setting.memory, setting.asked
    if memory.others_bytes and (memory.pool_bytes is None or held.rank.over_bytes):
        alone = memory._replace(others_bytes=0)
        yield "released", {"memory_used_by_others_bytes": 0}, setting._replace(memory=alone)
    if memory.pool_bytes is not None:
        return
    if memory.utilization < _ROOMY_UTILIZATION and not memory.others_bytes:
        roomier = memory._replace(utilization=_ROOMY_UTILIZATION)
        yield "released", {"memory_utilization": _ROOMY_UTILIZATION}, setting._replace(memory=roomier)
    if held.batch.sequences > _FEW_SEQUENCES:
        fewer = asked._replace(max_sequences_limit=_FEW_SEQUENCES)
        yield "released", {"max_sequences_limit": _FEW_SEQUENCES}, setting._replace(asked=fewer)
