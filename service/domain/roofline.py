"""Where decode stops being bound by memory: the batch whose arithmetic takes as long as reading the weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.fit import whole_weight_bytes
from service.domain.loads import whole_weights
from service.domain.units import exact, whole

if TYPE_CHECKING:
    from collections.abc import Callable

    from service.domain.question import Scenario

_SEARCH_LIMIT = 1 << 48


class StepWeights(NamedTuple):
    """What a decode step reads of the whole model's weights, in bytes, and multiplies, in parameters.

    `dense_bytes` are read whatever the batch, `expert_bytes` by the share of experts that a batch touches, `row_bytes`
    once for each sequence; `parameters` is what one token multiplies with.
    """

    dense_bytes: int
    expert_bytes: int
    row_bytes: int
    parameters: int
    experts: tuple[int, int]

    def touched(self, batch: int) -> float:
        """Expected share of the experts that a batch touches, routed evenly: 1 - (1 - k/E)^B (accounting 8.1)."""
        count, active = self.experts
        return 1.0 - (1.0 - active / count) ** batch if count else 0.0

    def read_bytes(self, batch: int) -> int:
        """Bytes of layers and head that a step of that batch reads, without gathered rows."""
        return self.dense_bytes + (whole(self.expert_bytes * self.touched(batch)) if self.expert_bytes else 0)

    def traffic_bytes(self, batch: int) -> int:
        """Everything of the weights that a step of that batch reads."""
        return self.read_bytes(batch) + self.row_bytes * batch


def step_weights(scenario: Scenario) -> StepWeights:
    """Read them off the model, or take all of what the question set: then no embedding is taken off (design 4.3)."""
    held = whole_weights(scenario.model, scenario.weights)
    architecture = scenario.model.architecture
    if scenario.weight_bytes is None and scenario.parameters is None:
        work = held.read_parameters + held.expert_parameters
        return StepWeights(held.read_bytes, held.expert_bytes, held.row_bytes, work, architecture.experts)
    work = architecture.active_parameters
    if scenario.parameters is not None:
        work = max(1, scenario.parameters * work // architecture.parameters)
    return StepWeights(whole_weight_bytes(scenario), 0, 0, work, (0, 0))


def ridge_batch(weights: StepWeights, bandwidth: float, peak: float) -> int:
    """Smallest batch with 2 p(batch) / peak >= b(batch) / bandwidth, in bytes and FLOP a second (design, section 2)."""
    top, work = exact(peak), 2 * weights.parameters * exact(bandwidth)
    if not weights.expert_bytes:
        return -int(-top * weights.dense_bytes // work)
    dense, experts, step = float(top * weights.dense_bytes), float(top * weights.expert_bytes), float(work)
    near = guessed(lambda batch: (dense + experts * weights.touched(batch)) / step, (dense + experts) / step)
    found = first_batch(lambda batch: step * batch >= dense + experts * weights.touched(batch), near)
    # A batch that is not looked at any more touches every expert.
    return found or -int(-top * (weights.dense_bytes + weights.expert_bytes) // work)


def guessed(bound: Callable[[int], float], most: float) -> int:
    """A batch near the first that reaches its bound, which grows with the batch and not beyond `most`."""
    return _searched(bound(_searched(most)))


def _searched(batch: float) -> int:
    """The nearest of the batches that are looked at at all."""
    return min(max(1, int(batch)), _SEARCH_LIMIT)


def first_batch(passes: Callable[[int], bool], near: int = 1) -> int | None:
    """The first batch from which a condition holds for good; None where it never does below 2^48.

    The conditions asked compare a line with a sum that grows ever slower, so they turn true once; the search goes in
    steps that double away from `near`.
    """
    low, high, step = near - 1, near, 1
    while not passes(high):
        if high >= _SEARCH_LIMIT:
            return None
        low, high, step = high, min(high + step, _SEARCH_LIMIT), 2 * step
    while low > 0 and passes(low):
        low, high, step = max(0, low - step), low, 2 * step
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passes(middle) else (middle, high)
    return high
