"""What reading prompts takes: operations, seconds in the model, and what attention scores would take written out.

seconds = max(matrices + head + attention + states, reading weights and earlier cache once a chunk) + all-reduces
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.exchange import ACTIVATION_BYTES
from service.domain.stages import parts
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from service.domain.loads import RankLoad
    from service.domain.stages import Group
    from service.domain.step import Step
    from service.domain.traffic import Traffic

_STREAMED_BYTES = 8
"""A running maximum and a running sum of a query row, in 32 bits each."""
_SIXTEEN_BITS = ("bf16", "fp16")


class PrefillTime(NamedTuple):
    """Seconds of a prefill, part by part; `mixed` of a decode step that takes one of its chunks along."""

    compute: float
    memory: float
    communication: float
    mixed: float

    @property
    def seconds(self) -> float:
        """All of it, in the model alone."""
        return max(self.compute, self.memory) + self.communication

    @property
    def bound(self) -> str:
        """The part that takes longest."""
        parts = {"compute": self.compute, "memory": self.memory, "communication": self.communication}
        return max(parts, key=lambda name: parts[name])


class Prefill:
    """Prompts of one length that are read together, in chunks as the engine cuts them."""

    __slots__ = ("attention", "chunk_tokens", "chunks", "flow", "head", "prompt", "prompts", "tokens", "work")

    def __init__(self, flow: Traffic, prompt: int, prompts: int) -> None:
        """Count the operations and the chunks."""
        self.flow, self.prompt, self.prompts = flow, prompt, prompts
        self.tokens = prompt * prompts
        self.work, self.head, self.attention = self._flops()
        # What the engine filled in counts as what is asked: the answer repeats it, and asked again must be the same.
        limit = flow.question.echo.values["max_batched_tokens"] or flow.times.chunk_tokens or self.tokens
        self.chunk_tokens = min(self.tokens, limit)
        self.chunks = ceil_div(self.tokens, self.chunk_tokens)

    @property
    def scores_per_head(self) -> int:
        """Scores of one head over one prompt."""
        return self.prompt * self.prompt

    @property
    def written_bytes(self) -> int:
        """Scores of all heads and layers, if they were written out."""
        return self.scores_per_head * self._heads * ACTIVATION_BYTES * self.prompts

    @property
    def streamed_bytes(self) -> int:
        """What streaming attention keeps in their place."""
        return _STREAMED_BYTES * self.prompt * self._heads * self.prompts

    @property
    def _heads(self) -> int:
        return self.flow.scenario.model.architecture.attention_heads

    def _flops(self) -> tuple[int, int, int]:
        """Operations of matrices, of the head among them, and of attention.

        The head works for the last position alone, and half the scores are masked (8.2).
        """
        flow, prompt = self.flow, self.prompt
        head, held = flow.scenario.model.architecture.head_elements, flow.whole.weights
        every = held.read_parameters + held.expert_parameters - head
        last = 2 * self.prompts * head
        pairs = sum(term.prefill_flops * _pairs(prompt, term.window_tokens) for term in flow.whole.terms)
        matrices = 2 * self.prompts * every * prompt + last
        return flow.scaled_work(matrices), flow.scaled_work(last), self.prompts * pairs

    def time(self, step: Step | None) -> PrefillTime | None:
        """How long it takes; None where bandwidth or peak is not known."""
        flow = self.flow
        if not flow.groups or step is None:
            return None
        ranks = flow.ranks
        # Groups of ranks that attend for themselves have a prompt each, where there are as many.
        attending = ranks.tensor // ranks.attention * min(ranks.attention, self.prompts)
        matrices = [group.work * self._matrices(group) / ranks.tensor for group in flow.groups]
        head = sum(group.work * self._head(group) / ranks.tensor for group in flow.groups)
        scoring = [self._scoring(group, attending) for group in flow.groups]
        reading = [self._reading(group, load) for group in flow.groups for load in group.loads]
        part = self.chunk_tokens / self.tokens
        mixed = step.seconds + part * sum(scoring) + flow.communication(self.chunk_tokens)
        mixed += max(0.0, step.compute + part * (sum(matrices) + head) - step.reading - step.multiplying)
        compute, memory = sum(matrices) + sum(scoring), sum(reading)
        if flow.times.chunks_in_flight is not None and self.chunks > 1:
            compute = self._following(self._apart(matrices, scoring), part)
            memory = self._following(reading, 1 / self.chunks)
        return PrefillTime(compute + head, memory, flow.communication(self.tokens, self.chunks), mixed)

    def _scoring(self, group: Group, attending: int) -> float:
        """Attention and recurrent states, which groups of ranks that attend for themselves share out."""
        return (group.attention * self._attention(group) + group.layer_share * self._states(group)) / attending

    def _apart(self, matrices: list[float], scoring: list[float]) -> list[float]:
        """Matrices and attention of each device; devices of one kind are one group, and share its time as its work."""
        if len(matrices) > 1:
            return [sum(both) for both in zip(matrices, scoring, strict=True)]
        loads = self.flow.groups[0].loads
        work = parts([load.weights.read_parameters + load.weights.expert_parameters for load in loads])
        scores = parts([sum(term.prefill_flops for term in load.terms) for load in loads])
        return [matrices[0] * own + scoring[0] * scored for own, scored in zip(work, scores, strict=True)]

    def _following(self, seconds: list[float], first: float) -> float:
        """Of devices with layers one after another, where chunks follow each other: the first takes all of them.

        Each later one takes as long as the slowest device, or as so many are on their way at once; `first` is the share
        of the first, by tokens of what is worked, and of what is read the same as of any other.
        """
        together, flying = sum(seconds), self.flow.times.chunks_in_flight or 1
        return first * together + (1 - first) * max(*seconds, together / flying)

    def _matrices(self, group: Group) -> float:
        """All but the head at the share of the peak that so many tokens reach."""
        share = group.times.share(self.chunk_tokens, self._ridge_tokens(group.bandwidth, group.peak))
        return (self.work - self.head) / (self._rate(group) * share)

    def _head(self, group: Group) -> float:
        """The head at the share that long prompts reach: it has as much to do however long they are."""
        return self.head / (self._rate(group) * group.times.prefill_maximum)

    def _rate(self, group: Group) -> float:
        """Peak of matrices, less where they are spread over experts."""
        experts = self.flow.scenario.model.architecture.experts[0]
        return group.peak * (group.times.prefill_experts if experts else 1.0)

    def _ridge_tokens(self, bandwidth: float, peak: float) -> float:
        """Tokens whose matrices take as long as reading the weights, at listed rates."""
        weights = self.flow.weights
        return peak * (weights.dense_bytes + weights.expert_bytes) / (2 * weights.parameters * bandwidth)

    def _attention(self, group: Group) -> float:
        """All of it streamed at a share of the 16-bit peak, or with scores of all pairs written out and read."""
        times, gpu = group.times, group.gpu
        found = gpu.peak(_SIXTEEN_BITS) if gpu else None
        listed = min(group.peak, found[1] if found else group.peak)
        if times.score_bytes is not None:
            moved = self.scores_per_head * self._heads * self.prompts * times.score_bytes / group.bandwidth
            return max(moved, self.attention / listed)
        return self.attention / (times.attention_share(self.prompt) * listed)

    def _states(self, group: Group) -> float:
        """What every token moves of the states of all layers."""
        rates = group.times.state_bytes
        states = self.flow.scenario.model.architecture.state_elements
        moved = sum([elements * rates.get(mixer, 0.0) for mixer, elements in states.items()])
        return self.tokens * moved / group.bandwidth

    def _reading(self, group: Group, load: RankLoad) -> float:
        """Weights once a chunk, and of the cache what earlier chunks wrote: half of it on average."""
        flow, (weight_rate, cache_rate, _) = self.flow, group.rates
        cache = flow.ranks.cache_bytes(load.sequence_bytes(self.prompt) * flow.ranks.batch(self.prompts))
        earlier = cache * (self.chunks - 1) / 2
        return flow.timed_bytes(load, self.chunk_tokens) * self.chunks / weight_rate + earlier / cache_rate


def _pairs(prompt: int, window: int | None) -> int:
    """Pairs of positions that a causal prefill scores: half the square, or a band of the window's width."""
    if window is None or prompt <= window:
        return prompt * prompt // 2
    return window * prompt - window * window // 2
