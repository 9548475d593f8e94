"""The devices that a step runs through one after another: what each reads, at which rates and coefficients.

Devices of one kind are one group, whose figures are those of all stages. Where a model is placed over several kinds,
each device is a group with its own bandwidth, peak and coefficients, and a step takes the sum of what all of them take.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind
from service.domain.calibration import Scope
from service.domain.engines.times import Case
from service.domain.roofline import step_weights
from service.domain.taught_times import TaughtTimes, taught_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from service.domain.engines.llama_cpp.layers import Placement
    from service.domain.engines.times import Times
    from service.domain.gpu import Gpu
    from service.domain.loads import RankLoad
    from service.domain.question import Question, Scenario


_BITS = 8
_PLACES = "llama.cpp"
"""The engine that places a model device by device."""


class Group(NamedTuple):
    """Stages on devices of one kind; `bandwidth` and `peak` in bytes and operations a second.

    `work`, `attention` and `layer_share` are parts of the model's matrices, of its attention and of its layers.
    """

    gpu: Gpu | None
    loads: tuple[RankLoad, ...]
    bandwidth: float
    peak: float
    times: Times
    layers: int
    expert_layers: int
    work: float = 1.0
    attention: float = 1.0
    layer_share: float = 1.0

    @property
    def rates(self) -> tuple[float, float, float]:
        """What its kernels reach: of weights and cache in bytes, of matrices in operations a second."""
        times = self.times
        return (
            self.bandwidth * times.weight_fraction,
            self.bandwidth * times.cache_fraction,
            self.peak * times.compute_fraction,
        )


class Effective(NamedTuple):
    """The rates at which devices one after another work through the whole model; None where one of them is unknown."""

    bandwidth: float | None
    peak: float | None


def case_of(question: Question, release: str | None = None) -> Case:
    """What the engine's coefficients depend on; a release counts where the question names it, or as given here."""
    scenario = question.scenario
    weights = scenario.weights
    return Case(
        question.gpu,
        weights.name,
        float(weights.element_bits),
        float(scenario.cache.element_bits),
        scenario.layout.tensor,
        release or question.echo.asked.get("engine_version"),
        scenario.model.architecture.key_elements,
        _read_bits(scenario),
    )


def _read_bits(scenario: Scenario) -> float | None:
    """Bits of a parameter that a step reads, on average, in a checkpoint that keeps modules in other formats.

    None with experts, of which batches read more or less: theirs is the format that counts.
    """
    model = scenario.model
    own = model.architecture.format_rules and scenario.weights.name == model.checkpoint_format
    if not own or model.architecture.experts[0]:
        return None
    read = step_weights(scenario)
    return _BITS * read.dense_bytes / max(1, read.parameters)


def placed_loads(question: Question) -> tuple[RankLoad, ...] | None:
    """What each device reads where an engine spreads layers by shares of its own; None for all other layouts."""
    several = question.devices or question.scenario.layout.pipeline > 1
    if not several or question.engine.name != _PLACES:
        return None
    from service.domain.engines.llama_cpp.layers import timed_loads  # noqa: PLC0415 - as below
    from service.domain.engines.ranks.setting import setting_of  # noqa: PLC0415 - as below

    return timed_loads(setting_of(question), _everywhere(question))


def effective(question: Question) -> Effective:
    """The rates of devices that differ: all bytes over the time that reading each device's takes, the peak likewise."""
    loads = placed_loads(question) or ()
    read = [load.weights.read_bytes + load.weights.expert_bytes for load in loads]
    worked = [load.weights.read_parameters + load.weights.expert_parameters for load in loads]
    return Effective(
        _harmonic(read, [device.bandwidth for device in question.devices]),
        _harmonic(worked, [device.peak for device in question.devices]),
    )


def _harmonic(sizes: Sequence[int], rates: Sequence[float | None]) -> float | None:
    known = [rate for rate in rates if rate is not None]
    if len(known) < len(sizes):
        return None
    return sum(sizes) / sum(size / rate for size, rate in zip(sizes, known, strict=True))


def as_multiplied(question: Question) -> None:
    """Give devices of one kind the peak of the type that the engine multiplies in, where it is not the format's own.

    A peak that the question gives stays.
    """
    gpu, step = question.gpu, question.engine.step
    if gpu is None or question.devices or not question.scenario.weights.name.startswith(step.own_types):
        return
    types = step.times(case_of(question)).multiplies
    found = gpu.peak(types) if types else None
    if found is not None:
        question.peak = question.echo.take("peak_flops_per_second", found[1], "catalog")


class Timing(NamedTuple):
    """The groups of a step, none where rates are not known, and what was learned of them."""

    groups: tuple[Group, ...]
    taught: TaughtTimes


def timing_of(question: Question, loads: tuple[RankLoad, ...]) -> Timing:
    """One group for all stages on devices of one kind, or a group for each of several kinds."""
    if question.devices:
        return _apart(question, loads)
    taught = taught_times(question, question.engine.step.times(case_of(question)))
    peak, architecture = question.peak, question.scenario.model.architecture
    if question.bandwidth is None or peak is None:
        return Timing((), taught)
    layers = architecture.layers, architecture.expert_layers
    return Timing((Group(question.gpu, loads, question.bandwidth, peak, taught.times, *layers),), taught)


def _apart(question: Question, loads: tuple[RankLoad, ...]) -> Timing:
    taught = []
    for device in question.devices:
        own = replace(question, gpu=device.gpu)
        taught.append(taught_times(own, own.engine.step.times(case_of(own))))
    # Whole steps were measured on devices of one kind alone: those of no circumstances are looked up.
    used = tuple(dict.fromkeys(learned for own in taught for learned in own.used))
    times, modelled = _together([own.times for own in taught]), _together([own.modelled for own in taught])
    learned = TaughtTimes(question, modelled, times, used, Scope())
    if question.bandwidth is None or question.peak is None:
        return Timing((), learned)
    each = zip(question.devices, loads, taught, _shares(question, loads), strict=True)
    groups = (
        Group(device.gpu, (load,), device.bandwidth or 0.0, device.peak or 0.0, own.times, *shares)
        for device, load, own, shares in each
    )
    return Timing(tuple(groups), learned)


def _together(times: Sequence[Times]) -> Times:
    """Coefficients of what devices do once a step or for each other: those of the slowest."""
    slowest = min(times, key=lambda each: (each.send_bytes_per_second, -each.send_seconds))
    return slowest._replace(
        step_seconds=max(each.step_seconds for each in times),
        sequence_seconds=max(each.sequence_seconds for each in times),
        sequence_to_seconds=max(each.sequence_to_seconds for each in times),
    )


def _everywhere(question: Question) -> Placement:
    """Where layers run if none stays on the host, which is what times are quoted for."""
    # An engine's rules are imported with the engine.
    from service.domain.engines.llama_cpp import LlamaCppEngine  # noqa: PLC0415
    from service.domain.engines.llama_cpp.capacity import placed  # noqa: PLC0415
    from service.domain.engines.ranks.setting import setting_of  # noqa: PLC0415

    engine = question.engine
    assert isinstance(engine, LlamaCppEngine)  # noqa: S101  # no other engine places device by device
    return placed(setting_of(question), engine.release(question.version), everything=True)


def _shares(question: Question, loads: Sequence[RankLoad]) -> list[tuple[int, int, float, float, float]]:
    """Of each device: its layers, those of experts, and its parts of matrices, attention and layers."""
    where = _everywhere(question)
    architecture = question.scenario.model.architecture
    routed = {layer for m in architecture.modules if m.kind is ModuleKind.EXPERT for layer in m.layers}
    work = [load.weights.read_parameters + load.weights.expert_parameters for load in loads]
    scores = [sum(term.prefill_flops for term in load.terms) for load in loads]
    layers = [len(held) for held in where.devices]
    shares = zip(parts(work), parts(scores), parts(layers), strict=True)
    return [(count, len(routed & held), *own) for count, held, own in zip(layers, where.devices, shares, strict=True)]


def parts(sizes: Sequence[int]) -> list[float]:
    """Shares of their sum."""
    return [size / (sum(sizes) or 1) for size in sizes]
