"""What a decode step reads, of the whole model and of the limiting rank, and how long it takes (design, section 4.3).

bytes = dense weights + touched experts + gathered rows + batch x (what the cache holds of a sequence)
seconds = layers x layer + batch x sequence + max(weights / (bandwidth x share), work / (peak x share))
          + cache / (bandwidth x share) + all-reduces                (perf_truth, section 2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.cache import CacheKind
from service.domain.loads import rank_loads, whole_load
from service.domain.roofline import StepWeights, first_batch, step_weights

if TYPE_CHECKING:
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.question import Question, Scenario

_ACTIVATION_BYTES = 2
"""Activations travel in 16 bits whatever the weights are stored in."""


@dataclass(frozen=True, slots=True)
class Step:
    """Seconds of one decode step, part by part; None of them where bandwidth or peak is not known."""

    seconds: float
    memory: float
    compute: float
    communication: float
    overhead: float
    spread: float

    @property
    def bound(self) -> str:
        """The part that takes longest."""
        parts = {
            "memory": self.memory,
            "compute": self.compute,
            "communication": self.communication,
            "overhead": self.overhead,
        }
        return max(parts, key=lambda name: parts[name])


class Traffic:
    """The traffic of one question's model and layout, at any batch and context."""

    __slots__ = ("_bytes_ratio", "loads", "question", "scenario", "weights", "whole")

    def __init__(self, question: Question) -> None:
        """Look up what follows from the shapes alone."""
        self.question = question
        self.scenario: Scenario = question.scenario
        scenario = self.scenario
        self.weights: StepWeights = step_weights(scenario)
        self.whole: RankLoad = whole_load(scenario.model, scenario.weights, scenario.cache)
        self.loads = rank_loads(scenario.model, scenario.weights, scenario.cache, scenario.layout)
        held = self.whole.weights
        asked = scenario.weight_bytes is not None or scenario.parameters is not None
        self._bytes_ratio = self.weights.dense_bytes / (held.read_bytes + held.expert_bytes) if asked else None

    def term_bytes(self, term: CacheTerm, batch: int, context: int) -> int:
        """What a step reads of one kind of cache: a shared prefix once, the rest for every sequence."""
        prefix = self.scenario.prefix_tokens
        shared = term.prefix_bytes(context, prefix) if prefix else 0
        return shared + batch * max(0, term.read_bytes(context) - shared)

    def cache_bytes(self, load: RankLoad, batch: int, context: int) -> int:
        """What a step reads of every cache on a rank."""
        return sum(self.term_bytes(term, batch, context) for term in load.terms)

    def rank_weight_bytes(self, load: RankLoad, batch: int) -> int:
        """What a step reads of the weights on a rank."""
        held = load.weights
        if self._bytes_ratio is not None:
            return int((held.read_bytes + held.expert_bytes) * self._bytes_ratio)
        touched = self.weights.touched(batch) if held.expert_bytes else 0.0
        return held.read_bytes + int(held.expert_bytes * touched) + held.row_bytes * batch

    def other_bytes(self, batch: int, context: int) -> int:
        """Cache writes, state write-back and activations of a step, of the whole model."""
        architecture = self.scenario.model.architecture
        written = batch * (
            self.whole.growth_bytes(context)
            + sum(t.fixed_bytes for t in self.whole.terms if t.spec.kind is CacheKind.RECURRENT)
        )
        passed = 2 * architecture.layers * architecture.hidden_size + architecture.vocabulary_size
        return written + batch * passed * _ACTIVATION_BYTES

    def flops(self, load: RankLoad, batch: int, context: int) -> int:
        """Floating-point operations of a step on a rank: matrices, and attention over what the cache holds."""
        held = load.weights
        scores = sum(term.score_flops * term.spec.tokens_read(context) for term in load.terms)
        return batch * (2 * (held.read_parameters + held.expert_parameters) + scores)

    def crossover(self, context: int) -> int | None:
        """First batch whose cache traffic passes the weight traffic; None if it never does."""
        terms, weights = self.whole.terms, self.weights
        if self.scenario.prefix_tokens or weights.expert_bytes or weights.row_bytes:
            return first_batch(lambda b: self.cache_bytes(self.whole, b, context) > weights.traffic_bytes(b))
        each = sum(term.read_bytes(context) for term in terms)
        return weights.dense_bytes // each + 1 if each else None

    def step(self, batch: int, context: int) -> Step | None:
        """The time between two tokens of one sequence, summed over the pipeline's stages."""
        bandwidth, peak = self.question.bandwidth, self.question.peak
        if bandwidth is None or peak is None:
            return None
        policy, scenario = self.question.engine.step, self.scenario
        rates = (bandwidth * policy.weight_fraction(self.question.gpu), peak * policy.compute_fraction)
        cache_rate = bandwidth * policy.cache_fraction.of(float(scenario.cache.element_bits))
        memory = compute = matrices = cache = 0.0
        for load in self.loads:
            weights_seconds = self.rank_weight_bytes(load, batch) / rates[0]
            work_seconds = self.flops(load, batch, context) / rates[1]
            matrices += max(weights_seconds, work_seconds)
            cache += self.cache_bytes(load, batch, context) / cache_rate
            memory, compute = memory + weights_seconds, compute + work_seconds
        overhead, communication = self._overhead(batch), self._communication(batch)
        spread = policy.spread_experts if scenario.model.architecture.experts[0] else policy.spread
        seconds = matrices + cache + overhead + communication
        return Step(seconds, memory + cache, compute, communication, overhead, spread)

    def _overhead(self, batch: int) -> float:
        policy, architecture = self.question.engine.step, self.scenario.model.architecture
        layer = policy.expert_layer_seconds if architecture.experts[0] else policy.layer_seconds
        return architecture.layers * layer + batch * policy.sequence_seconds

    def _communication(self, tokens: int) -> float:
        """Two all-reduces a layer of the tokens' activations (accounting 8.3)."""
        policy, architecture = self.question.engine.step, self.scenario.model.architecture
        if self.scenario.layout.tensor == 1:
            return 0.0
        size = tokens * architecture.hidden_size * _ACTIVATION_BYTES
        each = policy.all_reduce_seconds + size / policy.link_bytes_per_second(self.question.gpu)
        return 2 * architecture.layers * each

    def prefill(self, prompt: int, prompts: int) -> dict[str, Any]:
        """The work and time of reading prompts together, and what attention scores would take."""
        terms = self.whole.terms
        heads = sum(term.query_heads for term in terms)
        work, attention = self._prefill_flops(prompt, prompts)
        timed = self._prefill_seconds(work, attention, prompt * prompts)
        scores = prompt * prompt
        return {
            "tokens": prompt * prompts,
            "flops": work + attention,
            "seconds": timed and timed[0],
            "interval_seconds": timed and self._spread(timed[0], self.question.engine.step.prefill_spread),
            "bound": timed and timed[1],
            "scores_per_head": scores,
            "scores_bytes_if_materialised": scores * heads * _ACTIVATION_BYTES * prompts,
            "scores_bytes_streaming": 8 * prompt * heads * prompts,
        }

    def _prefill_flops(self, prompt: int, prompts: int) -> tuple[int, int]:
        """Matrix and attention operations: the head only for the last position, half the scores masked (8.2)."""
        architecture, held = self.scenario.model.architecture, self.whole.weights
        head = architecture.vocabulary_size * architecture.hidden_size
        every = held.read_parameters + held.expert_parameters - head
        matrices = 2 * prompts * (every * prompt + head)
        pairs = sum(term.score_flops * _pairs(prompt, term.window_tokens) for term in self.whole.terms)
        return matrices, prompts * pairs

    def _prefill_seconds(self, work: int, attention: int, tokens: int) -> tuple[float, str] | None:
        peak, bandwidth = self.question.peak, self.question.bandwidth
        if peak is None or bandwidth is None:
            return None
        policy, scenario = self.question.engine.step, self.scenario
        bits, ranks = float(scenario.weights.element_bits), scenario.layout.tensor
        share = policy.prefill_maximum.of(bits) * tokens / (tokens + policy.prefill_half_tokens.of(bits))
        compute = (work / share + attention / policy.prefill_attention_fraction) / (peak * ranks)
        weights_seconds = sum(self.rank_weight_bytes(load, tokens) for load in self.loads)
        memory = weights_seconds / (bandwidth * policy.weight_fraction(self.question.gpu))
        communication = self._communication(tokens)
        bound = max((compute, "compute"), (memory, "memory"), (communication, "communication"))[1]
        return max(compute, memory) + communication, bound

    @staticmethod
    def _spread(seconds: float, spread: float) -> list[float]:
        return [seconds * (1 - spread), seconds * (1 + spread)]


def _pairs(prompt: int, window: int | None) -> int:
    """Pairs of positions that a causal prefill scores: half the square, or a band of the window's width."""
    if window is None or prompt <= window:
        return prompt * prompt // 2
    return window * prompt - window * window // 2
