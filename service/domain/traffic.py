"""What a decode step reads, of the whole model and of the limiting rank, and how long it takes (design, section 4.3).

bytes = dense weights + touched experts + gathered rows + batch x (what the cache holds of a sequence)
seconds = step + layers x layer + batch x sequence + max(weights / (bandwidth x share), work / (peak x share))
          + cache / (bandwidth x share) + exchanges of the ranks     (perf_truth, section 2)
With speculative decoding the model takes several tokens of each sequence at once, and the drafter's passes are added.
"""

from __future__ import annotations

from math import sqrt
from operator import lt
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple

from service.domain.cache.base import CacheKind
from service.domain.drafting import drafting
from service.domain.exchange import ACTIVATION_BYTES, exchanges, ranks_of
from service.domain.loads import attention_loads, whole_load
from service.domain.roofline import StepWeights, first_batch, guessed, step_weights
from service.domain.stages import placed_loads, timing_of
from service.domain.step import Step
from service.domain.taught_times import spread_of
from service.domain.units import ceil_div, whole

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.times import Times
    from service.domain.exchange import Exchange
    from service.domain.loads import CacheTerm, RankLoad
    from service.domain.question import Question, Scenario

_QUANTILES = NormalDist()


class Reading(NamedTuple):
    """What a step reads of the caches on a rank, once for all sequences and for each, and its work on them for each."""

    shared_bytes: int
    each_bytes: int
    flops: int


class Traffic:
    """The traffic of one question's model and layout, at any batch and context."""

    __slots__ = (
        *("_asked_bytes", "_readings", "_sent", "_work_ratio", "alone", "drafting", "groups", "limit_asked", "loads"),
        *("question", "ranks", "scenario", "taught", "times", "verified", "weights", "whole"),
    )

    def __init__(self, question: Question) -> None:
        """Look up what follows from the shapes alone."""
        self.question = question
        self.scenario: Scenario = question.scenario
        self.limit_asked = "context_limit_tokens" in question.echo.asked
        scenario = self.scenario
        self.weights: StepWeights = step_weights(scenario)
        self.whole: RankLoad = whole_load(scenario.model, scenario.weights, scenario.cache)
        self.ranks = ranks_of(question)
        self.loads = placed_loads(question) or attention_loads(
            scenario.model, scenario.weights, scenario.cache, scenario.layout, self.ranks.attention
        )
        if self.ranks.attention == 1 and self.loads == (self.whole,):
            # What one rank reads is added up once, for it and for the whole model.
            self.loads = (self.whole,)
        self.alone = self.ranks.alone
        self._sent: dict[tuple[int, int], list[Exchange]] = {}
        self._readings: dict[tuple[int, int], Reading] = {}
        self.drafting = drafting(question)
        self.verified = self.drafting.verified if self.drafting else 1
        held = self.whole.weights
        asked = scenario.weight_bytes is not None or scenario.parameters is not None
        self._asked_bytes = (self.weights.dense_bytes, held.read_bytes + held.expert_bytes) if asked else None
        parameters, own = scenario.parameters, scenario.model.architecture.parameters
        self._work_ratio = 1 if parameters is None else parameters / own
        self.groups, self.taught = timing_of(question, self.loads)
        self.times: Times = self.taught.times

    def term_bytes(self, term: CacheTerm, batch: int, context: int) -> int:
        """What a step reads of one kind of cache: a shared prefix once, the rest for every sequence."""
        prefix = self.scenario.prefix_tokens
        shared = term.shared_read_bytes(context, prefix) if prefix else 0
        return shared + batch * (term.read_bytes(context) - shared)

    def cache_bytes(self, load: RankLoad, batch: int, context: int) -> int:
        """What a step reads of every cache on a rank, without a drafter's."""
        reading = self.reading(load, context)
        return reading.shared_bytes + batch * reading.each_bytes

    def reading(self, load: RankLoad, context: int) -> Reading:
        """The same of any batch, added up once: `load` is one of those kept here, so that its identity tells it."""
        key = (id(load), context)
        found = self._readings.get(key)
        if found is None:
            found = self._readings[key] = _reading(load, context, self.scenario.prefix_tokens)
        return found

    def rank_cache_bytes(self, load: RankLoad, batch: int, context: int) -> int:
        """The same of a replica's batch, of which a rank may attend for a part, or hold a part of each context."""
        return self.ranks.cache_bytes(self.cache_bytes(load, self.ranks.batch(batch), context))

    def rank_weight_bytes(self, load: RankLoad, tokens: int) -> int:
        """What a step over so many tokens reads of the weights on a rank, without a drafter's."""
        held = load.weights
        if self._asked_bytes is not None:
            asked, own = self._asked_bytes
            return ceil_div((held.read_bytes + held.expert_bytes) * asked, own)
        touched = self.weights.touched(tokens * self.ranks.replicas)
        experts = whole(held.expert_bytes * self.expert_share * touched) if held.expert_bytes else 0
        return held.read_bytes + experts + held.row_bytes * tokens

    def draft_bytes(self, load: RankLoad, batch: int, context: int, *, of_rank: bool = True) -> tuple[int, int]:
        """What the passes of a drafter read of its weights and of its cache; it stands on the last stage."""
        draft = self.drafting
        if draft is None or (of_rank and load is not self.loads[-1]):
            return 0, 0
        sequences = self.ranks.batch(batch) if of_rank else batch
        cache = draft.cache_bytes(load, sequences, context)
        drafter = draft.rank if of_rank else draft.whole
        return draft.weight_bytes(drafter, self.touched(batch)), self.ranks.cache_bytes(cache) if of_rank else cache

    def touched(self, tokens: int) -> float:
        """Share of the experts that so many tokens touch, also where the question sets what all weights take."""
        count, active = self.scenario.model.architecture.experts
        return 1.0 - (1.0 - active / count) ** tokens if count else 0.0

    def total_bytes(self, batch: int, context: int) -> tuple[int, int]:
        """Weights and cache that a step reads, of the whole model and its drafter."""
        weights, cache = self.draft_bytes(self.whole, batch, context, of_rank=False)
        return (
            self.weights.traffic_bytes(batch * self.verified) + weights,
            self.cache_bytes(self.whole, batch, context) + cache,
        )

    def other_bytes(self, batch: int, context: int) -> int:
        """Cache writes, state write-back and activations of a step, of the whole model."""
        architecture = self.scenario.model.architecture
        tokens = batch * self.verified
        written = tokens * (
            self.whole.growth_bytes(context)
            + sum(t.fixed_bytes for t in self.whole.terms if t.spec.kind is CacheKind.RECURRENT)
        )
        passed = 2 * architecture.layers * architecture.hidden_size + architecture.vocabulary_size
        return written + tokens * passed * ACTIVATION_BYTES

    def flops(self, load: RankLoad, batch: int, context: int) -> int:
        """Floating-point operations of a step on a rank: matrices, and attention over what the cache holds."""
        held, sequences = load.weights, batch if load is self.whole else self.ranks.batch(batch)
        matrices = self.scaled_work(2 * (held.read_parameters + held.expert_parameters))
        return self.verified * (batch * matrices + sequences * self.reading(load, context).flops)

    def scaled_work(self, flops: int) -> int:
        """Operations in matrices, of the parameters that the question set where it did."""
        return int(flops * self._work_ratio)

    def crossover(self, context: int) -> int | None:
        """First batch whose cache traffic passes the weight traffic; None if it never does."""
        terms, weights = self.whole.terms, self.weights
        if self.drafting is not None:
            return first_batch(lambda b: lt(*self.total_bytes(b, context)))
        if self.scenario.prefix_tokens:
            return first_batch(lambda b: self.cache_bytes(self.whole, b, context) > weights.traffic_bytes(b))
        each = sum(term.read_bytes(context) for term in terms) - weights.row_bytes
        if weights.expert_bytes and each > 0:
            near = guessed(lambda b: weights.read_bytes(b) / each, (weights.dense_bytes + weights.expert_bytes) / each)
            return first_batch(lambda b: each * b > weights.read_bytes(b), near)
        return weights.dense_bytes // each + 1 if each > 0 else None

    def ridge_with_cache(self, context: int) -> int | None:
        """First batch whose work takes as long as reading weights and cache at listed rates; None if it never does.

        Reading a sequence's cache may take longer than all the work on its token: then no batch gets there.
        """
        bandwidth, peak = self.question.bandwidth, self.question.peak
        if bandwidth is None or peak is None:
            return None
        work = self.flops(self.whole, 1, context) / peak
        shared, each, _ = self.reading(self.whole, context)
        gain = work - (each + self.weights.row_bytes) / bandwidth
        if gain <= 0:
            return None
        weights, most = self.weights, (self.weights.dense_bytes + self.weights.expert_bytes + shared) / bandwidth
        near = guessed(lambda b: (weights.read_bytes(b) + shared) / bandwidth / gain, most / gain)
        return first_batch(lambda b: b * gain >= (weights.read_bytes(b) + shared) / bandwidth, near)

    def step(self, batch: int, context: int) -> Step | None:
        """The time between two tokens of one sequence, summed over the pipeline's stages."""
        times = self.times
        if self.question.bandwidth is None or self.question.peak is None or self._reads_host:
            return None
        weights = cache = compute = reading = multiplying = 0.0
        tokens, written = batch * self.verified, self.other_bytes(batch, context)
        for group in self.groups:
            weight_rate, cache_rate, work_rate = group.rates
            for load in group.loads:
                read = self.timed_bytes(load, tokens) / weight_rate
                worked = self.flops(load, batch, context) / work_rate
                weights, compute = weights + read, compute + worked
                longer = (read, 0.0) if read >= worked else (0.0, worked)
                reading, multiplying = reading + longer[0], multiplying + longer[1]
                cache += self.rank_cache_bytes(load, batch, context) / cache_rate
            cache += group.layer_share * written / (cache_rate * self.scenario.layout.tensor)
        communication = self.communication(tokens)
        overhead, spread = self._overhead(batch), self.spread(times.spread)
        late = batch * (times.sequence_to_seconds - times.sequence_seconds)
        step = Step(weights, cache, compute, reading, multiplying, communication, overhead, spread, late=late)
        passes = self._passes(batch, context)
        return self._as_measured(step if passes is None else step.with_passes(passes), batch)

    @property
    def _reads_host(self) -> bool:
        """Whether steps read weights over the link to the host, whose rate nobody measured."""
        return bool(self.question.echo.asked.get("cpu_offload_bytes"))

    def _passes(self, batch: int, context: int) -> Step | None:
        """A drafter's passes: a layer and a head each, the first over all tokens that the step before took."""
        draft, times, load = self.drafting, self.times, self.loads[-1]
        if draft is None or not draft.passes:
            return None
        weight_rate, cache_rate, work_rate = self.groups[-1].rates
        weight_bytes, cache_bytes = self.draft_bytes(load, batch, context)
        tokens = batch * (draft.passes - 1 + draft.verified)
        read, worked = weight_bytes / weight_rate, 2 * tokens * draft.rank.parameters / work_rate
        layer = times.expert_layer_seconds if draft.rank.expert_bytes else times.layer_seconds
        reduced = self.communication(tokens, draft.passes) / max(1, self.scenario.model.architecture.layers)
        return Step(
            weights=read,
            cache=cache_bytes / cache_rate,
            compute=worked,
            reading=read if read >= worked else 0.0,
            multiplying=worked if read < worked else 0.0,
            communication=reduced,
            overhead=draft.passes * (draft.known.pass_seconds + layer),
            spread=draft.known.spread,
        )

    def _as_measured(self, step: Step, batch: int) -> Step:
        """The step as long as whole steps of such batches were measured to be, its terms in the same proportion."""
        learned = self.taught.step(batch)
        return step if learned is None else step.scaled(1 + learned.estimate, spread_of(learned, step.spread))

    def timed_bytes(self, load: RankLoad, tokens: int) -> float:
        """What so many tokens take the time of reading: of experts fewer than evenly drawn, as routing is uneven.

        Where they are spread over ranks, every layer waits for the rank whose experts most tokens touch.
        """
        held = load.weights
        if self._asked_bytes is not None or not held.expert_bytes:
            return self.rank_weight_bytes(load, tokens)
        even = self.weights.touched(tokens * self.ranks.replicas)
        touched = max(self.weights.touched(1), self.times.expert_coverage * even)
        ranks = self.ranks.tensor * self.ranks.replicas
        if self.ranks.experts and ranks > 1:
            touched = min(1.0, touched + self._ahead(even, ranks))
        return held.read_bytes + held.expert_bytes * self.expert_share * touched + held.row_bytes * tokens

    @property
    def expert_share(self) -> float:
        """Of the experts that a replica's rank would hold alone, those that are left where replicas share one set."""
        ranks, count = self.ranks, self.scenario.model.architecture.experts[0]
        if ranks.replicas == 1:
            return 1.0
        return ceil_div(count, ranks.tensor * ranks.replicas) / ceil_div(count, ranks.tensor)

    def _ahead(self, touched: float, ranks: int) -> float:
        """By what share of its experts the fullest of the ranks is expected to be ahead of the average one.

        Each rank's touched experts are taken as drawn one by one; the largest of n draws from a normal distribution
        lies near its quantile at (n - 3/8) / (n + 1/4) (Blom 1958).
        """
        own = ceil_div(self.weights.experts[0], ranks)
        quantile = _QUANTILES.inv_cdf((ranks - 0.375) / (ranks + 0.25))
        return quantile * sqrt(touched * (1.0 - touched) / own)

    def _overhead(self, batch: int) -> float:
        times, layers = self.times, 0.0
        for group in self.groups:
            own, routed = group.times, group.expert_layers
            layers += routed * own.expert_layer_seconds + (group.layers - routed) * own.layer_seconds
        return times.step_seconds + layers + batch * times.sequence_seconds

    def spread(self, spread: Mapping[str, float]) -> float:
        """Wider for experts, and wider still for small ones, whose kernels are far from any listed rate."""
        architecture = self.scenario.model.architecture
        if not architecture.experts[0]:
            return spread["dense"]
        small = architecture.expert_parameters < self.times.small_expert_parameters
        return spread["small_experts" if small else "experts"]

    def exchanges(self, tokens: int, messages: int = 1) -> list[Exchange]:
        """What the ranks send each other for so many tokens, in so many passes."""
        found = self._sent.get((tokens, messages))
        if found is None:
            found = exchanges(self.question, self.ranks, self.times, tokens, messages)
            self._sent[tokens, messages] = found
        return found

    def communication(self, tokens: int, messages: int = 1) -> float:
        """Seconds of all that."""
        found = () if self.alone else self.exchanges(tokens, messages)
        return sum([exchange.seconds for exchange in found], 0.0) if found else 0.0


def _reading(load: RankLoad, context: int, prefix: int) -> Reading:
    shared = sum([term.shared_read_bytes(context, prefix) for term in load.terms]) if prefix else 0
    read = sum([term.read_bytes(context) for term in load.terms])
    flops = sum([term.score_flops * term.spec.tokens_read(context) for term in load.terms])
    return Reading(shared, read - shared, flops)
