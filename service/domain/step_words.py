"""A step's time in sentences: what each term is the product of, and what the time leaves out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.traffic import ACTIVATION_BYTES, case_of

if TYPE_CHECKING:
    from service.domain.question import Question
    from service.domain.traffic import Step, Traffic


def say_step(flow: Traffic, step: Step | None, batch: int) -> list[str]:
    """The terms of a step, in milliseconds and microseconds; nothing where no time can be told."""
    bandwidth, peak, times = flow.question.bandwidth, flow.peak, flow.times
    if step is None or bandwidth is None or peak is None:
        return []
    read, worked = f"{bandwidth / 1e9:,.0f} GB/s", f"{peak / 1e12:,.0f} TFLOP/s"
    measured = flow.taught.step(batch)
    return [
        *([] if measured is None else [f"every term x {1 + measured.estimate:.3f}, as steps were measured:"]),
        f"weights at {times.weight_fraction:.2f} of {read}: {_ms(step.weights)}",
        f"matrices at {times.compute_fraction:.2f} of {worked}: {_ms(step.compute)}, of which the longer counts",
        f"cache at {times.cache_fraction:.2f} of {read}, with what is written: {_ms(step.cache)}",
        _fixed(flow, step, batch),
        *_all_reduces(flow, step, batch),
        f"{_ms(step.seconds)} a step, give or take {step.spread:.0%}",
    ]


def assume_release(flow: Traffic) -> None:
    """Say so where the release that a question leaves to the engine has times of its own, which nobody measured."""
    question = flow.question
    own = question.engine.step.times(case_of(question, question.version))
    if own is not flow.taught.modelled and own != flow.taught.modelled:
        measured = "times are of the releases that were measured"
        question.assumptions.append(f"{measured}; name engine_version for what is expected of {question.version}")


def warn_of_drafts(question: Question) -> None:
    """Say that a step is one without drafts, where some were asked for."""
    if question.echo.asked.get("speculative_method") not in {None, "none"}:
        question.warnings.append("Steps are timed without drafts: neither reading them nor accepted tokens count.")


def _fixed(flow: Traffic, step: Step, batch: int) -> str:
    times, architecture = flow.times, flow.scenario.model.architecture
    layer = times.expert_layer_seconds if architecture.experts[0] else times.layer_seconds
    every = f"{_us(times.step_seconds)} + " if times.step_seconds else ""
    layers = f"{architecture.layers:,} layers x {_us(layer)}"
    return f"fixed: {every}{layers} + {batch:,} sequences x {_us(times.sequence_seconds)} = {_ms(step.overhead)}"


def _all_reduces(flow: Traffic, step: Step, batch: int) -> list[str]:
    if not step.communication:
        return []
    times, architecture = flow.times, flow.scenario.model.architecture
    size = batch * architecture.hidden_size * ACTIVATION_BYTES
    each = f"{_us(times.all_reduce_seconds)} + {size:,} B at {times.link_bytes_per_second / 1e9:,.1f} GB/s"
    return [f"{2 * architecture.layers:,} all-reduces x ({each}) = {_ms(step.communication)}"]


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:,.3f} ms"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} us"
