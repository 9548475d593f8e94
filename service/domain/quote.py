"""The answer of `/fit`, built as the plain dict that goes on the wire; a test proves that it fits its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.errors import QuoteError
from service.domain.explain import say_counts
from service.domain.fit import whole_weight_bytes
from service.domain.holding import Holding, hold
from service.domain.loads import rank_loads, replicated, whole_load
from service.domain.parallel import divides
from service.domain.question import resolve
from service.domain.roofline import ridge_batch, step_weights
from service.domain.taught import calibration_of
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question

_MAX_RANKS = 64


def fit(question: Question, catalog: Catalog) -> dict[str, Any]:
    """Say how many sequences fit, what takes the memory, and what would change it (design, section 4.2)."""
    scenario, held = question.scenario, hold(question)
    batch = question.echo.take("batch_size", 1)
    data, context = scenario.layout.data, scenario.context_tokens
    ceiling = held.sequences * data
    fits = held.starts and held.sequences >= ceil_div(batch, data)
    levers = held.levers(catalog, ceiling)
    whole = held.as_kept(whole_load(scenario.model, scenario.weights, scenario.cache))
    weight_bytes = whole_weight_bytes(scenario)
    question.echo.take("weight_bytes", weight_bytes, "derived")
    question.echo.take("kv_cache_bytes", held.pool_bytes, "derived")
    say_counts(question, weight_bytes)
    _say_replicated(question, whole)
    derivation = held.explain()
    if batch > held.running * data and fits:
        question.warnings.append(f"The engine runs at most {held.running * data:,} sequences at once, not {batch:,}.")
    return {
        **identity(question),
        "fits": fits,
        "max_sequences": ceiling,
        "max_sequences_per_replica": held.sequences,
        "max_running_sequences": held.running * data,
        "max_concurrency": held.concurrency,
        "max_context_tokens": held.longest_context,
        "kv_capacity_tokens": held.capacity_tokens,
        "blocks": held.blocks,
        "block_tokens": held.block_tokens,
        "groups": held.groups,
        "kv_bytes_per_token": whole.growth_bytes(context),
        "kv_bytes_per_sequence": whole.sequence_bytes(context),
        "weight_bytes": weight_bytes,
        "cache": cache_rows(whole, context),
        "rank": _rank(question, held),
        "ledger": held.ledger(),
        "roofline": _roofline(question, held),
        "binding": {"constraint": held.constraint(), "to_gain_one_sequence_bytes": held.gain_bytes()},
        "shortage": None if fits else _shortage(question, held, levers, catalog),
        "levers": levers,
        "interval": held.interval(),
        "calibration": calibration_of(question),
        "command": question.heard and question.heard.said,
        "assumptions": question.assumptions,
        "warnings": question.warnings,
        "derivation": derivation,
        "catalog_revision": catalog.revision,
        "calibration_revision": question.calibration.revision,
    }


def identity(question: Question) -> dict[str, Any]:
    """What was asked, of which model, on which device, by which engine: the head of every answer."""
    model, gpu = question.scenario.model, question.gpu
    return {
        "question": question.echo.values,
        "taken": question.echo.taken,
        "model": {
            "id": model.id,
            "name": model.name,
            "parameters": question.scenario.parameters or model.architecture.parameters,
            "active_parameters": _active(question),
            "context_tokens": model.context_tokens,
            "revision": model.revision,
        },
        "gpu": gpu
        and {"id": gpu.id, "name": gpu.name, "count": question.scenario.layout.gpus, "revision": gpu.revision},
        "gpus": [{"id": card.id, "name": card.name, "revision": card.revision} for card in question.cards] or None,
        "engine": {"name": question.engine.name, "version": question.version},
    }


def _rank(question: Question, held: Holding) -> dict[str, Any]:
    """The limiting rank, and its share of a sequence."""
    load, context, shared = held.load, question.scenario.context_tokens, _context_ranks(question)
    return {
        "index": load.index,
        "pipeline_stage": load.stage,
        "kv_bytes_per_token": ceil_div(load.growth_bytes(context), shared),
        "kv_bytes_per_sequence": ceil_div(load.sequence_bytes(context), shared),
    }


def _context_ranks(question: Question) -> int:
    """How many ranks share one context out among them."""
    return question.echo.asked.get("decode_context_parallel") or 1


def _say_replicated(question: Question, whole: RankLoad) -> None:
    """Add to the assumptions what the ranks of a replica hold more than once."""
    scenario = question.scenario
    if scenario.layout.tensor == 1 and scenario.layout.pipeline == 1:
        return
    loads = rank_loads(scenario.model, scenario.weights, scenario.cache, scenario.layout)
    beyond = replicated(loads, whole, scenario.layout.tensor, scenario.context_tokens, _context_ranks(question))
    if any(beyond):
        question.assumptions.append(
            f"the ranks of a replica hold {beyond.weight_bytes:,} bytes of weights and {beyond.sequence_bytes:,} bytes"
            " of each sequence beyond one copy"
        )


def _active(question: Question) -> int:
    """Parameters of a token, in the proportion of the count that the question set."""
    architecture, asked = question.scenario.model.architecture, question.scenario.parameters
    if asked is None:
        return architecture.active_parameters
    return ceil_div(asked * architecture.active_parameters, architecture.parameters)


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


def _roofline(question: Question, held: Holding) -> dict[str, Any] | None:
    """The ridge batch, and how far one replica's ceiling falls short of it; None without bandwidth and peak."""
    if question.bandwidth is None or question.peak is None:
        return None
    ridge = ridge_batch(step_weights(question.scenario), question.bandwidth, question.peak)
    return {"ridge_batch": ridge, "shortfall": ridge / held.sequences if held.sequences else None}


def _shortage(question: Question, held: Holding, levers: list[dict[str, Any]], catalog: Catalog) -> dict[str, Any]:
    """What the limiting rank lacks for the batch that was asked, and the smallest change that would give it."""
    batch = question.echo.values["batch_size"]
    needed, available = held.shortage_bytes(ceil_div(batch, question.scenario.layout.data))
    return {
        "constraint": held.constraint(),
        "needed_bytes": needed,
        "available_bytes": available,
        "missing_bytes": max(0, needed - available),
        "max_context_tokens": held.longest_limit,
        "nearest_change": _nearest_change(question, held, levers, catalog),
    }


def _nearest_change(
    question: Question, held: Holding, levers: list[dict[str, Any]], catalog: Catalog
) -> dict[str, Any] | None:
    """The smallest change that makes the batch fit when it is asked: a lever, a shorter limit, or the fewest ranks."""
    for change in _changes(question, held, levers):
        if held.keeps(change) or _would_fit(question, change, catalog):
            return change
    return _fewest_ranks(question, held, catalog)


def _changes(question: Question, held: Holding, levers: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    if held.constraint() == "context_limit" and held.longest_limit:
        yield {"context_limit_tokens": held.longest_limit}
    batch = question.echo.values["batch_size"]
    yield from (lever["change"] for lever in reversed(levers) if lever["max_sequences"] >= batch)


def _fewest_ranks(question: Question, held: Holding, catalog: Catalog) -> dict[str, Any] | None:
    """The fewest tensor-parallel ranks beyond those asked that hold the batch, None where no layout does."""
    layout, asked = question.scenario.layout, question.echo.asked
    needed = ceil_div(question.echo.values["batch_size"], layout.data)
    tensor = layout.tensor * 2
    while tensor <= _MAX_RANKS:
        if divides(tensor, question.scenario.model.architecture, expert=layout.expert) and _placed(question, tensor):
            change: dict[str, Any] = {"tensor_parallel": tensor}
            count = tensor * layout.pipeline * layout.data
            if "gpu_count" in asked:
                change["gpu_count"] = count
            if "gpus" in asked:
                change["gpus"] = asked["gpus"][:1] * count
            fits = held.fits_ranks(tensor, needed)
            if _would_fit(question, change, catalog) if fits is None else fits:
                return change
        tensor *= 2
    return None


def _placed(question: Question, tensor: int) -> bool:
    """Whether so many ranks have room for the weights at all: what is cheap to see need not be asked."""
    scenario = question.scenario
    return whole_weight_bytes(scenario) <= tensor * scenario.layout.pipeline * scenario.budget.free(0)


def _would_fit(question: Question, change: dict[str, Any], catalog: Catalog) -> bool:
    """Ask it: what a change does to the question's other defaults is not guessed."""
    try:
        changed = resolve({**question.echo.asked, **change}, catalog, question.named)
        held = hold(changed)
    except QuoteError:
        return False
    batch = question.echo.values["batch_size"]
    return held.starts and held.sequences >= ceil_div(batch, changed.scenario.layout.data)
