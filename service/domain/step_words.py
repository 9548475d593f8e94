"""A step's time in sentences: what each term is the product of, and what the time leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.stages import case_of

if TYPE_CHECKING:
    from service.domain.exchange import Exchange
    from service.domain.stages import Group
    from service.domain.step import Step
    from service.domain.traffic import Traffic


def say_step(flow: Traffic, step: Step | None, batch: int) -> list[str]:
    """The terms of a step, in milliseconds and microseconds; nothing where no time can be told."""
    if step is None:
        return []
    measured = flow.taught.step(batch)
    factor = 1.0 if measured is None else 1 + measured.estimate
    longer = f", of which the longer counts{_apart(step)}"
    weights, matrices, cache = _rates(flow)
    return [
        *([] if measured is None else [f"every term x {factor:.3f}, as steps were measured:"]),
        *_devices(flow),
        f"weights{weights}: {_ms(step.weights)}",
        f"matrices{matrices}: {_ms(step.compute)}{longer}",
        f"cache{cache}, with what is written: {_ms(step.cache)}",
        _fixed(flow, step, batch),
        *_exchanges(flow, step, batch, factor),
        *_passes(flow, step),
        f"{_ms(step.seconds)} a step, give or take {step.spread:.0%}{_late(step)}",
    ]


def _rates(flow: Traffic) -> tuple[str, str, str]:
    """The rates of weights, matrices and cache, where all devices have the same."""
    if len(flow.groups) > 1:
        return "", "", ""
    group = flow.groups[0]
    read, worked, times = _read(group), f"{group.peak / 1e12:,.0f} TFLOP/s", group.times
    return (
        f" at {times.weight_fraction:.2f} of {read}",
        f" at {times.compute_fraction:.2f} of {worked}",
        f" at {times.cache_fraction:.2f} of {read}",
    )


def _devices(flow: Traffic) -> list[str]:
    """What each of several devices has of the layers, and at which rates."""
    return [_device(at, group) for at, group in enumerate(flow.groups)] if len(flow.groups) > 1 else []


def _device(at: int, group: Group) -> str:
    times, name = group.times, group.gpu.name if group.gpu else "as asked"
    shares = f"weights at {times.weight_fraction:.2f} and cache at {times.cache_fraction:.2f} of {_read(group)}"
    worked = f"matrices at {times.compute_fraction:.2f} of {group.peak / 1e12:,.0f} TFLOP/s"
    return f"device {at}, {name}, {group.layers:,} layers: {shares}, {worked}"


def _read(group: Group) -> str:
    return f"{group.bandwidth / 1e9:,.0f} GB/s"


def _late(step: Step) -> str:
    return f", and up to {_ms(step.late)} more for its sequences" if step.late else ""


def _apart(step: Step) -> str:
    """What counts where the longer is another one in some stages, or in a drafter's passes."""
    counted = step.reading + step.multiplying
    return "" if counted <= max(step.weights, step.compute) * (1 + 1e-9) else f", {_ms(counted)} over all parts"


def assume_release(flow: Traffic) -> None:
    """Say so where the release that a question leaves to the engine has times of its own, which nobody measured."""
    question = flow.question
    if question.version is None:
        return
    own = question.engine.step.times(case_of(question, question.version))
    if own is not flow.taught.modelled and own != flow.taught.modelled:
        measured = "times are of the releases that were measured"
        question.assumptions.append(f"{measured}; name engine_version for what is expected of {question.version}")


def assume_no_adapters(flow: Traffic) -> None:
    """Say so where a step would read adapters too: which of them a batch needs is not asked."""
    if flow.question.echo.asked.get("max_loras"):
        flow.question.assumptions.append("steps are timed without adapters, which are read beside the weights")


def warn_of_drafts(flow: Traffic) -> None:
    """Say what cannot be told of drafts, and what of the evidence is taken for granted."""
    question, draft = flow.question, flow.drafting
    name = question.echo.asked.get("speculative_method")
    if draft is None:
        if name not in {None, "none"}:
            question.warnings.append("Steps are timed without drafts: neither reading them nor accepted tokens count.")
        return
    if draft.method.accepted is None:
        told = f"How many tokens {name} guesses right depends on the text alone, so no time of an output token is told"
        question.warnings.append(f"{told}: a step's seconds are for 1 to {draft.verified:,} of them.")
        return
    low, middle, high = draft.method.accepted
    chance = f"{middle:.2f} where all before it were, {low:.2f} to {high:.2f} by the text"
    question.assumptions.append(f"a guess of {name} is taken with a chance of {chance}")
    if draft.known.verified_beside == 0:
        question.assumptions.append("guesses are one chain, without branches")


def _fixed(flow: Traffic, step: Step, batch: int) -> str:
    times = flow.times
    parts = [
        *([_us(times.step_seconds)] if times.step_seconds else []),
        *(part for group in flow.groups for part in _of_layers(group)),
        f"{batch:,} sequences x {_us(times.sequence_seconds)}",
        *_own(flow),
    ]
    return f"fixed: {' + '.join(parts)} = {_ms(step.overhead)}"


def _of_layers(group: Group) -> list[str]:
    return [
        *_layers(group.layers - group.expert_layers, "layers", group.times.layer_seconds),
        *_layers(group.expert_layers, "layers of experts", group.times.expert_layer_seconds),
    ]


def _layers(count: int, name: str, seconds: float) -> list[str]:
    return [f"{count:,} {name} x {_us(seconds)}"] if count else []


def _own(flow: Traffic) -> list[str]:
    draft, times = flow.drafting, flow.times
    if draft is None or not draft.passes:
        return []
    layer = times.expert_layer_seconds if draft.rank.expert_bytes else times.layer_seconds
    return [f"{draft.passes:,} passes x {_us(draft.known.pass_seconds + layer)}"]


def _exchanges(flow: Traffic, step: Step, batch: int, factor: float) -> list[str]:
    found = flow.exchanges(batch * flow.verified)
    own = step.communication - factor * sum(exchange.seconds for exchange in found)
    lines = [_exchange(exchange, factor) for exchange in found]
    return [*lines, f"the same in the drafter's passes: {_ms(own)}"] if found and flow.drafting else lines


def _exchange(exchange: Exchange, factor: float) -> str:
    name = exchange.kind.replace("_", "-") + ("s" if exchange.messages > 1 else "")
    each = f"{_us(exchange.message_seconds)} + {exchange.bytes:,} B at {exchange.bytes_per_second / 1e9:,.1f} GB/s"
    return f"{exchange.messages:,} {name} x ({each}) = {_ms(factor * exchange.seconds)}"


def _passes(flow: Traffic, step: Step) -> list[str]:
    if flow.drafting is None:
        return []
    draft = flow.drafting
    verified = f"{draft.verified:,} tokens of each sequence verified together"
    return [f"{draft.passes:,} passes of the drafter, {_ms(step.drafting)} of all that; {verified}"]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"
