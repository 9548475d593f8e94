"""The parts of an answer that say why: ledger, binding constraint, shortage, and the derivation line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from service.domain.fit import Capacity, Held
    from service.domain.loads import CacheTerm
    from service.domain.question import Question

_ALWAYS_SHOWN = frozenset({"weights", "reserve", "kv_cache", "unused"})


def say_counts(question: Question, weight_bytes: int) -> None:
    """Add to the assumptions which count of parameters and which size of the weights the answer stands on."""
    scenario = question.scenario
    own = scenario.model.architecture.parameters
    if scenario.weight_bytes is not None:
        note = f"weights as asked, {weight_bytes:,} bytes"
    elif scenario.parameters is not None:
        note = f"{scenario.parameters:,} parameters as asked; the model's exact count is {own:,}"
    else:
        note = f"the model's exact count, {own:,} parameters"
    question.assumptions.append(f"{note}; weights in {scenario.weights.name}, cache in {scenario.cache.name}")


def ledger(question: Question, held: Held) -> dict[str, Any]:
    """The limiting rank's memory in parts that add up to the byte."""
    budget = question.scenario.budget
    weight_bytes = held.load.weight_bytes
    known = sources(question)
    rows = (
        ("weights", weight_bytes, weights_note(question, held.load.index)),
        ("reserve", budget.reserve_bytes, "for everything that is neither weights nor cache"),
        ("kv_cache", held.pool_bytes, "what the other parts leave" if budget.pool_bytes is None else "as asked"),
        ("others", budget.others_bytes, "held by other processes"),
        ("outside_budget", budget.outside_bytes, "held back by memory_utilization"),
        ("unused", budget.unused(weight_bytes), "taken by nothing"),
    )
    return {
        "memory_bytes": budget.memory_bytes,
        "overcommitted_bytes": held.overcommitted_bytes,
        "parts": [
            {"name": name, "bytes": size, "source": known.get(name, "derived"), "note": note}
            for name, size, note in rows
            if size or name in _ALWAYS_SHOWN
        ],
    }


def sources(question: Question) -> dict[str, str]:
    """Where the sizes come from that are not derived here."""
    asked = question.echo.asked
    found = {"others": "request", "outside_budget": "request" if "memory_utilization" in asked else "catalog"}
    if "weight_bytes" in asked or "parameters" in asked:
        found["weights"] = "request"
    elif question.scenario.model.id:
        found["weights"] = "catalog"
    if "reserve_bytes" in asked:
        found["reserve"] = "request"
    if "kv_cache_bytes" in asked:
        found["kv_cache"] = "request"
    return found


def weights_note(question: Question, rank: int) -> str:
    """How the weights of a rank come about."""
    scenario = question.scenario
    count = scenario.parameters or scenario.model.architecture.parameters
    if scenario.layout.tensor > 1 or scenario.layout.pipeline > 1:
        return f"the share of rank {rank} of {count:,} parameters in {scenario.weights.name}"
    if scenario.weight_bytes is not None:
        return "as asked"
    if scenario.weights.file_bytes is not None and scenario.parameters is None:
        return f"{count:,} parameters in {scenario.weights.name}, what its file holds"
    bits = scenario.weights.uniform_bits
    if bits is None:
        return f"{count:,} parameters in {scenario.weights.name}, what it leaves in 16 bits included"
    return f"{count:,} parameters x {bits / 8:g} B"


def constraint(question: Question, capacity: Capacity) -> str:
    """What stops one more sequence, or the start."""
    held, budget = capacity.context, question.scenario.budget
    weight_bytes = held.load.weight_bytes
    if not held.overcommitted_bytes:
        return "context_limit" if held.sequences and not capacity.starts else "kv_cache"
    room = budget.memory_bytes - budget.outside_bytes
    if weight_bytes > room:
        return "weights"
    if weight_bytes + budget.others_bytes > room:
        return "free_memory"
    return "reserve" if budget.pool_bytes is None else "kv_cache"


def derivation(question: Question, held: Held) -> list[str]:
    """The arithmetic with its numbers put in, one step a line, for the limiting rank."""
    scenario, budget = question.scenario, question.scenario.budget
    taken = _subtracted(question, held)
    lines = [f"{budget.memory_bytes:,} B of memory{taken} = {held.pool_bytes:,} B for the KV cache"]
    if held.overcommitted_bytes:
        lines[0] = f"{budget.memory_bytes:,} B of memory{taken}: {held.overcommitted_bytes:,} B too much"
    elif budget.pool_bytes is not None:
        lines[0] = f"{held.pool_bytes:,} B for the KV cache, as asked"
    lines += [_term_line(term, scenario.context_tokens) for term in held.load.terms]
    sequence = held.own_bytes + held.prefix_bytes
    if len(held.load.terms) > 1:
        lines.append(f"{sequence:,} B for a sequence of {scenario.context_tokens:,} tokens")
    lines.append(_division(held))
    if scenario.layout.data > 1:
        total = held.sequences * scenario.layout.data
        lines.append(f"{held.sequences:,} sequences x {scenario.layout.data} replicas = {total:,} sequences")
    if scenario.layout.gpus > 1:
        lines.insert(0, f"rank {held.load.index} of a replica, on pipeline stage {held.load.stage}, fills first")
    return lines


def _subtracted(question: Question, held: Held) -> str:
    budget = question.scenario.budget
    text = f" - {held.load.weight_bytes:,} B weights ({weights_note(question, held.load.index)})"
    text += f" - {budget.reserve_bytes:,} B reserve"
    if budget.outside_bytes:
        text += f" - {budget.outside_bytes:,} B held back by utilization"
    if budget.others_bytes:
        text += f" - {budget.others_bytes:,} B held by others"
    return text


def _term_line(term: CacheTerm, context: int) -> str:
    held, size = term.held(context), term.sequence_bytes(context)
    fixed = f" + {term.fixed_bytes:,} B a sequence" if term.fixed_bytes else ""
    window = "" if term.window_tokens is None else f" (window of {term.window_tokens:,})"
    layers = "1 layer" if term.layers == 1 else f"{term.layers} layers"
    return f"{term.kind}, {layers}: {term.bytes_per_token:,} B a token x {held:,} tokens{window}{fixed} = {size:,} B"


def _division(held: Held) -> str:
    if held.overcommitted_bytes:
        return "0 sequences"
    if not held.prefix_bytes:
        return f"floor({held.pool_bytes:,} / {held.own_bytes:,}) = {held.sequences:,} sequences"
    return (
        f"floor(({held.pool_bytes:,} - {held.prefix_bytes:,} shared prefix) / ({held.own_bytes + held.prefix_bytes:,}"
        f" - {held.prefix_bytes:,})) = {held.sequences:,} sequences"
    )
