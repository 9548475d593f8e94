"""The answer of `/fit`, built as the plain dict that goes on the wire; a test proves that it fits its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.explain import constraint, derivation, ledger, say_counts, shortage
from service.domain.fit import capacity_of, loads_of, longest_context, whole_weight_bytes
from service.domain.levers import levers
from service.domain.loads import whole_load
from service.domain.roofline import ridge_batch, step_weights
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from service.domain.fit import Capacity
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question

_EXACT = "exact arithmetic of the stated inputs, nothing modelled"


def fit(question: Question, catalog: Catalog) -> dict[str, Any]:
    """Say how many sequences fit, what takes the memory, and what would change it (design, section 4.2)."""
    scenario = question.scenario
    held = capacity_of(scenario)
    batch = question.echo.take("batch_size", 1)
    data = scenario.layout.data
    ceiling = held.sequences * data
    fits = held.starts and held.sequences >= ceil_div(batch, data)
    found = levers(question, catalog, ceiling)
    whole = whole_load(scenario.model, scenario.weights, scenario.cache)
    weight_bytes = whole_weight_bytes(scenario)
    question.echo.take("weight_bytes", weight_bytes, "derived")
    question.echo.take("kv_cache_bytes", held.pool_bytes, "derived")
    say_counts(question, weight_bytes)
    longest = longest_context(loads_of(scenario), scenario.budget)
    context, limit = scenario.context_tokens, scenario.limit_tokens
    concurrency = held.concurrency
    return {
        **identity(question),
        "fits": fits,
        "max_sequences": ceiling,
        "max_sequences_per_replica": held.sequences,
        "max_running_sequences": ceiling,
        "max_concurrency": concurrency,
        "max_context_tokens": longest,
        "kv_capacity_tokens": held.capacity_tokens(limit),
        "blocks": None,
        "block_tokens": None,
        "groups": None,
        "kv_bytes_per_token": whole.growth_bytes(context),
        "kv_bytes_per_sequence": whole.sequence_bytes(context),
        "weight_bytes": weight_bytes,
        "cache": cache_rows(whole, context),
        "rank": {
            "index": held.load.index,
            "pipeline_stage": held.load.stage,
            "kv_bytes_per_token": held.load.growth_bytes(context),
            "kv_bytes_per_sequence": held.load.sequence_bytes(context),
        },
        "ledger": ledger(question, held),
        "roofline": _roofline(question, held),
        "binding": {"constraint": constraint(question, held), "to_gain_one_sequence_bytes": _to_gain(held)},
        "shortage": None if fits else shortage(question, held, found, longest),
        "levers": found,
        "interval": {
            "kv_cache_bytes": [held.pool_bytes, held.pool_bytes],
            "max_concurrency": [concurrency, concurrency],
            "max_sequences": [ceiling, ceiling],
            "basis": _EXACT,
        },
        "calibration": None,
        "assumptions": question.assumptions,
        "warnings": question.warnings,
        "derivation": derivation(question, held),
        "catalog_revision": catalog.revision,
        "calibration_revision": 0,
    }


def identity(question: Question) -> dict[str, Any]:
    """What was asked, of which model, on which device, by which engine: the head of every answer."""
    model, gpu = question.scenario.model, question.gpu
    architecture = model.architecture
    return {
        "question": question.echo.values,
        "taken": question.echo.taken,
        "model": {
            "id": model.id,
            "name": model.name,
            "parameters": question.scenario.parameters or architecture.parameters,
            "active_parameters": architecture.active_parameters,
            "context_tokens": model.context_tokens,
            "revision": model.revision,
        },
        "gpu": gpu
        and {"id": gpu.id, "name": gpu.name, "count": question.scenario.layout.gpus, "revision": gpu.revision},
        "engine": {"name": question.engine.name, "version": None},
    }


def cache_rows(whole: RankLoad, context: int) -> list[dict[str, Any]]:
    """The whole model's cache by kind, for one sequence of the context."""
    return [
        {
            "kind": term.kind,
            "layers": term.layers,
            "bytes_per_token": term.bytes_per_token,
            "window_tokens": term.window_tokens,
            "bytes_per_sequence": term.sequence_bytes(context),
        }
        for term in whole.terms
    ]


def _roofline(question: Question, held: Capacity) -> dict[str, Any] | None:
    """The ridge batch, and how far one replica's ceiling falls short of it; None without bandwidth and peak."""
    if question.bandwidth is None or question.peak is None:
        return None
    ridge = ridge_batch(step_weights(question.scenario), question.bandwidth, question.peak)
    return {"ridge_batch": ridge, "shortfall": ridge / held.sequences if held.sequences else None}


def _to_gain(held: Capacity) -> int:
    """Bytes missing on the limiting rank for one more sequence."""
    wanted = held.prefix_bytes + (held.sequences + 1) * held.own_bytes
    return max(0, wanted - held.pool_bytes) + held.overcommitted_bytes
