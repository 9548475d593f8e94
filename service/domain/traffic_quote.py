"""The answer of `/traffic`, built as the plain dict that goes on the wire; a test proves that it fits its schema."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.errors import Fault, ValidationError
from service.domain.explain import say_counts
from service.domain.fit import whole_weight_bytes
from service.domain.holding import hold
from service.domain.prefill import Prefill
from service.domain.quote import identity
from service.domain.roofline import ridge_batch
from service.domain.step_words import assume_no_adapters, assume_release, say_step, warn_of_drafts
from service.domain.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.holding import Holding
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.question import Catalog, Question
    from service.domain.step import Step


_LARGEST_BATCH = 1 << 24
"""What a question may ask for, so that the batch which an answer assumes can be asked again."""


def traffic(question: Question, catalog: Catalog) -> dict[str, Any]:
    """Say what one decode step reads and how long it takes (design, section 4.3)."""
    held = hold(question)
    batch = question.echo.take("batch_size", min(max(1, held.running), _LARGEST_BATCH), "derived")
    context = question.scenario.context_tokens
    flow = Traffic(question)
    weight_bytes, cache_bytes = flow.total_bytes(batch, context)
    step = flow.step(batch, context)
    whole_bytes = whole_weight_bytes(question.scenario)
    question.echo.take("weight_bytes", whole_bytes, "derived")
    question.echo.take("kv_cache_bytes", held.pool_bytes, "derived")
    say_counts(question, whole_bytes)
    question.warnings += [*held.untimed(), *_untold(question)]
    warn_of_drafts(flow)
    assume_release(flow)
    assume_no_adapters(flow)
    question.assumptions += flow.taught.say(batch)
    return {
        **identity(question),
        "batch_size": batch,
        "context_tokens": context,
        "fits": held.starts and held.sequences >= batch,
        **_totals(weight_bytes, cache_bytes),
        "other_traffic_bytes": flow.other_bytes(batch, context),
        "by_kind": _by_kind(flow, batch, context),
        "crossover_batch": flow.crossover(context),
        "ridge_batch": _ridge(question, flow),
        "ridge_batch_with_cache": flow.ridge_with_cache(context),
        "arithmetic_intensity": flow.flops(flow.whole, batch, context) / (weight_bytes + cache_bytes),
        **_times(flow, step, batch),
        "speculation": speculation(flow, step, batch),
        "communication": _communication(flow, step, batch),
        "prefill": _prefill(question, flow, step),
        "rank": _rank(flow, held, batch),
        "curve": _curve(question, flow, held, batch),
        "efficiency": _efficiency(question, flow, step, batch),
        "command": question.heard and question.heard.said,
        "assumptions": question.assumptions,
        "warnings": question.warnings,
        "derivation": [*_derivation(flow, batch, weight_bytes, cache_bytes), *say_step(flow, step, batch)],
        "catalog_revision": catalog.revision,
        "calibration_revision": question.calibration.revision,
    }


def _untold(question: Question) -> Iterator[str]:
    """Why a known device has no times."""
    rates = {"bandwidth_bytes_per_second": question.bandwidth, "peak_flops_per_second": question.peak}
    missing = [name for name, rate in rates.items() if rate is None]
    if question.gpu is not None and missing:
        known = f"the catalog has no {' and no '.join(missing)} of {question.gpu.name}"
        yield f"Times are null: {known}; give it to have them."


def _totals(weight_bytes: int, cache_bytes: int) -> dict[str, Any]:
    total = weight_bytes + cache_bytes
    return {
        "weight_traffic_bytes": weight_bytes,
        "cache_traffic_bytes": cache_bytes,
        "total_traffic_bytes": total,
        "weight_share": weight_bytes / total,
        "cache_share": cache_bytes / total,
    }


def _by_kind(flow: Traffic, batch: int, context: int) -> list[dict[str, Any]]:
    """Cache traffic by kind, the drafter's own last: it keeps whole sequences as the model's own layers do."""
    rows = [{"kind": term.kind, "bytes": flow.term_bytes(term, batch, context)} for term in flow.whole.terms]
    _, drafted = flow.draft_bytes(flow.whole, batch, context, of_rank=False)
    whole = [term.kind for term in flow.whole.terms if term.growing_bytes and term.window_tokens is None]
    return [*rows, {"kind": whole[0] if whole else rows[0]["kind"], "bytes": drafted}] if drafted else rows


def _times(flow: Traffic, step: Step | None, batch: int) -> dict[str, Any]:
    if step is None:
        return dict.fromkeys(
            ("step", "tokens_per_second", "tokens_per_second_per_sequence", "time_per_output_token_seconds")
        )
    tokens = tokens_per_step(flow)
    return {
        "step": {
            "seconds": step.seconds,
            "memory_seconds": step.memory,
            "compute_seconds": step.compute,
            "communication_seconds": step.communication,
            "overhead_seconds": step.overhead,
            "bound": step.bound,
            "shares": step.shares,
            "interval_seconds": list(step.interval),
        },
        "tokens_per_second": _tokens_per_second(flow, step, batch),
        "tokens_per_second_per_sequence": tokens and tokens / step.seconds,
        "time_per_output_token_seconds": tokens and step.seconds / tokens,
    }


def _tokens_per_second(flow: Traffic, step: Step, batch: int) -> float | None:
    """Of all sequences of all replicas; None where tokens of a step depend on the text alone."""
    tokens = tokens_per_step(flow)
    return tokens and batch * flow.scenario.layout.data * (tokens / step.seconds)


def tokens_per_step(flow: Traffic) -> float | None:
    """Tokens that a step yields of each sequence: one without drafts, None where it depends on the text alone."""
    if flow.drafting is None:
        return 1.0
    found = flow.drafting.tokens
    return None if found is None else found[1]


def speculation(flow: Traffic, step: Step | None, batch: int) -> dict[str, Any] | None:
    """What drafting adds to a step, and what it yields; None without drafts."""
    draft = flow.drafting
    if draft is None:
        return None
    weights, cache = flow.draft_bytes(flow.whole, batch, flow.scenario.context_tokens, of_rank=False)
    low, middle, high = draft.tokens or (1.0, None, float(draft.verified))
    around = step and step.interval
    return {
        "method": draft.name,
        "draft_passes": draft.passes,
        "verified_tokens": draft.verified,
        "weight_traffic_bytes": weights,
        "cache_traffic_bytes": cache,
        "draft_seconds": step and step.drafting,
        "tokens_per_step": middle,
        "tokens_per_step_interval": [low, high],
        "time_per_output_token_interval_seconds": around and [around[0] / high, around[1] / low],
    }


def _communication(flow: Traffic, step: Step | None, batch: int) -> list[dict[str, Any]]:
    """What ranks send each other, by kind; seconds only where a step has any."""
    return [
        {
            "kind": exchange.kind,
            "messages": exchange.messages,
            "bytes_per_message": exchange.bytes,
            "bytes": exchange.messages * exchange.bytes,
            "seconds": exchange.seconds if step else None,
        }
        for exchange in flow.exchanges(batch * flow.verified)
    ]


def _ridge(question: Question, flow: Traffic) -> int | None:
    if question.bandwidth is None or question.peak is None:
        return None
    return ridge_batch(flow.weights, question.bandwidth, question.peak)


def _prefill(question: Question, flow: Traffic, step: Step | None) -> dict[str, Any]:
    prompt = question.echo.take("prompt_tokens", question.scenario.context_tokens, "derived")
    own = question.scenario.model.context_tokens
    if own and prompt > own >= question.scenario.limit_tokens:
        question.warnings.append(
            f"A prompt of {prompt:,} tokens is longer than the {own:,} the model was published for."
        )
    prefill = Prefill(flow, prompt, question.echo.take("prefill_sequences", 1))
    timed, spread = prefill.time(step), flow.spread(flow.times.prefill_spread)
    return {
        "tokens": prefill.tokens,
        "flops": prefill.work + prefill.attention,
        "seconds": timed and timed.seconds,
        "interval_seconds": timed and _around(timed.seconds, spread),
        "bound": timed and timed.bound,
        "chunk_tokens": prefill.chunk_tokens,
        "mixed_step_seconds": timed and timed.mixed,
        "scores_per_head": prefill.scores_per_head,
        "scores_bytes_if_materialised": prefill.written_bytes,
        "scores_bytes_streaming": prefill.streamed_bytes,
    }


def _rank(flow: Traffic, held: Holding, batch: int) -> dict[str, Any]:
    """Traffic of the limiting rank; `held` was taken from a copy of its load, so it is looked up by stage."""
    load = flow.loads[held.load.stage]
    weight_bytes, cache_bytes = _rank_bytes(flow, load, batch)
    return {
        "index": load.index,
        "pipeline_stage": load.stage,
        "weight_traffic_bytes": weight_bytes,
        "cache_traffic_bytes": cache_bytes,
        "total_traffic_bytes": weight_bytes + cache_bytes,
    }


def _rank_bytes(flow: Traffic, load: RankLoad, batch: int) -> tuple[int, int]:
    """Weights and cache that a rank reads in a step, a drafter's with the model's."""
    context = flow.scenario.context_tokens
    weights, cache = flow.draft_bytes(load, batch, context)
    held = flow.rank_weight_bytes(load, batch * flow.verified)
    return held + weights, flow.rank_cache_bytes(load, batch, context) + cache


def _curve(question: Question, flow: Traffic, held: Holding, batch: int) -> list[dict[str, Any]] | None:
    """Flat rows over the batches and contexts asked for, batches outermost; None where neither was."""
    asked = question.echo.asked
    batches, contexts = asked.get("curve_batch_sizes"), asked.get("curve_context_tokens")
    if batches is None and contexts is None:
        return None
    context, prefix = question.scenario.context_tokens, question.scenario.prefix_tokens
    if prefix and any(length <= prefix for length in contexts or ()):
        detail = (
            f"Every context of the curve must be above shared_prefix_tokens {prefix}: a sequence adds at least a token."
        )
        raise ValidationError(Fault("/curve_context_tokens", detail))
    return [_row(flow, held, b, c) for b in batches or [batch] for c in contexts or [context]]


def _row(flow: Traffic, held: Holding, batch: int, context: int) -> dict[str, Any]:
    step = flow.step(batch, context)
    return {
        "batch_size": batch,
        "context_tokens": context,
        "fits": held.fits(batch, context) and (held.starts or not flow.limit_asked),
        **_totals(*flow.total_bytes(batch, context)),
        "step_seconds": step and step.seconds,
        "bound": step and step.bound,
        "tokens_per_second": step and _tokens_per_second(flow, step, batch),
    }


def _efficiency(question: Question, flow: Traffic, step: Step | None, batch: int) -> dict[str, Any] | None:
    """Achieved shares of the listed rates: of bandwidth over everything read, of the peak in matrices."""
    if step is None or question.bandwidth is None:
        return None
    listed = sum(
        sum(sum(_rank_bytes(flow, load, batch)) for load in group.loads) / group.bandwidth for group in flow.groups
    )
    share = listed / step.memory if step.memory else 1.0
    behind = flow.taught.behind(batch)
    return {
        "bandwidth": share,
        "compute": flow.times.compute_fraction,
        "source": "measured" if behind else "modelled",
        "measurements": sum(learned.measurements for learned in behind),
    }


def _derivation(flow: Traffic, batch: int, weight_bytes: int, cache_bytes: int) -> list[str]:
    weights, context, tokens = flow.weights, flow.scenario.context_tokens, batch * flow.verified
    lines = [f"{weights.dense_bytes:,} B of weights read by every step"]
    if weights.expert_bytes:
        count, active = weights.experts
        share = weights.touched(tokens)
        lines.append(
            f"{weights.expert_bytes:,} B of experts, of which 1 - (1 - {active}/{count})^{tokens} = {share:.4f} touched"
        )
    if weights.row_bytes:
        lines.append(f"{tokens:,} gathered rows x {weights.row_bytes:,} B")
    drafted = flow.draft_bytes(flow.whole, batch, context, of_rank=False)
    lines += _drafted(flow, drafted[0], "weights")
    lines.append(f"{weight_bytes:,} B of weights in all")
    lines += [_cached(flow, term, batch, context) for term in flow.whole.terms]
    lines += _drafted(flow, drafted[1], "cache")
    total = weight_bytes + cache_bytes
    lines.append(f"{weight_bytes:,} + {cache_bytes:,} = {total:,} B a step, {cache_bytes / total:.1%} of it cache")
    return lines


def _around(seconds: float, spread: float) -> list[float]:
    """Low and high; where few who measured lie far apart, nothing is known but that it takes some time."""
    return [seconds * max(0.0, 1 - spread), seconds * (1 + spread)]


def _cached(flow: Traffic, term: CacheTerm, batch: int, context: int) -> str:
    """What a step reads of one kind of cache, as the product that it is."""
    tokens, size = term.spec.tokens_read(context), flow.term_bytes(term, batch, context)
    layers = "" if term.readers == term.layers else f" x {term.readers:,}/{term.layers:,} layers that read it"
    parts = [
        *([f"{tokens:,} tokens read x {term.growing_bytes:,} B{layers}"] if term.growing_bytes else []),
        *([f"{term.fixed_bytes:,} B"] if term.fixed_bytes or not term.growing_bytes else []),
    ]
    prefix = flow.scenario.prefix_tokens
    shared = term.shared_read_bytes(context, prefix) if prefix else 0
    once, less = (f"{shared:,} B of the prefix once + ", f" - {shared:,} B") if shared else ("", "")
    return f"{term.kind}: {once}{batch:,} sequences x ({' + '.join(parts)}{less}) = {size:,} B"


def _drafted(flow: Traffic, size: int, what: str) -> list[str]:
    return [f"{flow.drafting.passes:,} passes of the drafter: {size:,} B of {what}"] if flow.drafting and size else []
