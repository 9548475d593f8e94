"""What the ranks of a layout send each other for some tokens: how often, how many bytes, and how long it takes.

- Tensor parallel: two all-reduces a layer, after attention and after the MLP or the experts (accounting 8.3). Experts
  spread over the same ranks add their parts up in the second one: every rank has every token, so nothing else is sent.
- Attention data parallel: ranks have tokens of their own. With experts spread, each token is sent to the ranks of its
  experts and back, two all-to-alls a layer of experts. Otherwise all tokens are gathered and the sums scattered.
- Experts spread over data parallel replicas: their tokens are gathered before the experts and the sums scattered after
  them, as vLLM does where it is not told another way.
- Context parallel: queries are gathered before attention, and its parts added up and scattered after it.
- Pipeline: the hidden states go from stage to stage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.architecture import Architecture
    from service.domain.engines.times import Times
    from service.domain.question import Question

ACTIVATION_BYTES = 2
"""Activations travel in 16 bits whatever the weights are stored in."""


_SHARES_EXPERTS = "vllm"
"""Where expert parallel spreads experts over data parallel replicas too (accounting 6.1)."""


class Ranks(NamedTuple):
    """The ranks of one replica's stage, and in how many groups attention and caches are divided among them."""

    tensor: int
    attention: int
    context: int
    stages: int
    experts: bool
    replicas: int = 1
    """Replicas that share one set of experts."""

    @property
    def alone(self) -> bool:
        """Whether there is nobody to send anything."""
        return self.tensor == self.stages == self.replicas == 1

    def batch(self, sequences: int) -> int:
        """Sequences whose attention the fullest rank runs."""
        return sequences if self.attention == 1 else ceil_div(sequences, self.attention)

    def cache_bytes(self, size: int) -> int:
        """Of a sequence's bytes on a rank, those that are left where context parallel shares them out."""
        return size if self.context == 1 else ceil_div(size, self.context)


class Exchange(NamedTuple):
    """One kind of message: how many a step, bytes of one on a rank, what a small one takes, and the seconds of all."""

    kind: str
    messages: int
    bytes: int
    message_seconds: float
    bytes_per_second: float
    seconds: float


def ranks_of(question: Question) -> Ranks:
    """How a question lays its ranks out."""
    layout, asked = question.scenario.layout, question.echo.asked
    attention, context = (asked.get(f"{n}_parallel") or 1 for n in ("attention_data", "decode_context"))
    shared = layout.expert and question.engine.name == _SHARES_EXPERTS
    return Ranks(layout.tensor, attention, context, layout.pipeline, layout.expert, layout.data if shared else 1)


def exchanges(question: Question, ranks: Ranks, times: Times, tokens: int, messages: int = 1) -> list[Exchange]:
    """Everything that a replica's ranks send for so many tokens, in so many passes."""
    if ranks.alone:
        return []
    found = []
    for kind, count, size in _messages(question, ranks, tokens):
        seconds, rate = _pace(kind, ranks, times)
        found.append(Exchange(kind, count, size, seconds, rate, count * (messages * seconds + size / rate)))
    return found


def _messages(question: Question, ranks: Ranks, tokens: int) -> Iterator[tuple[str, int, int]]:
    """Kind, number and bytes."""
    architecture = question.scenario.model.architecture
    state = architecture.hidden_size * ACTIVATION_BYTES
    if ranks.tensor > 1:
        yield from _of_tensor(architecture, ranks, tokens)
    if ranks.replicas > 1:
        yield "all_gather", architecture.expert_layers, ranks.replicas * tokens * state
        yield "reduce_scatter", architecture.expert_layers, ranks.replicas * tokens * state
    if ranks.context > 1:
        width = tokens * ceil_div(architecture.query_width, ranks.tensor) * ranks.context * ACTIVATION_BYTES
        yield "all_gather", architecture.layers, width
        yield "reduce_scatter", architecture.layers, width
    if ranks.stages > 1:
        yield "send", ranks.stages - 1, tokens * state


def _of_tensor(architecture: Architecture, ranks: Ranks, tokens: int) -> Iterator[tuple[str, int, int]]:
    """Between the ranks that share every layer."""
    layers, state = architecture.layers, architecture.hidden_size * ACTIVATION_BYTES
    if ranks.attention == 1:
        yield "all_reduce", 2 * layers, tokens * state
        return
    own, sent = ranks.batch(tokens), architecture.expert_layers if ranks.experts else 0
    if ranks.attention < ranks.tensor:
        yield "all_reduce", layers, own * state
    if sent:
        yield "all_to_all", 2 * sent, own * architecture.experts[1] * state
    if layers > sent:
        yield "all_gather", layers - sent, tokens * state
        yield "reduce_scatter", layers - sent, tokens * state


def _pace(kind: str, ranks: Ranks, times: Times) -> tuple[float, float]:
    """Seconds of a small message, and bytes a second of a large one.

    A ring's all-reduce is a reduce-scatter and an all-gather: each takes half as long for the same bytes, and what a
    rank sends in either is (ranks - 1) / ranks of them.
    """
    if kind == "all_reduce":
        return times.all_reduce_seconds, times.link_bytes_per_second
    if kind == "send":
        return times.send_seconds, times.send_bytes_per_second
    if kind == "all_to_all" and times.all_to_all is not None:
        return times.all_to_all
    sent = (ranks.tensor - 1) / ranks.tensor if kind == "all_to_all" else 1.0
    return times.all_reduce_seconds, 2 * sent * times.link_bytes_per_second
