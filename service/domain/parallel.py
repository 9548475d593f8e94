"""How a model is laid over GPUs: tensor, pipeline, data and expert parallelism."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from service.domain.architecture import Architecture

_MAX_LISTED = 16
# Nobody splits a layer further, and a config may claim heads by the milliard.
_MOST_RANKS = 4096


@dataclass(frozen=True, slots=True)
class Layout:
    """A replica is `tensor` x `pipeline` GPUs; `data` replicas answer side by side."""

    tensor: int = 1
    pipeline: int = 1
    data: int = 1
    expert: bool = False

    @property
    def gpus(self) -> int:
        """GPUs of the whole deployment."""
        return self.tensor * self.pipeline * self.data


ONE_GPU = Layout()


def stage_layers(layers: int, stages: int) -> tuple[range, ...]:
    """The layers of each pipeline stage, split as vLLM does: spare layers go to the last stages but one, backwards.

    Source: vLLM `distributed/utils.py` (accounting 2.4): the last stage, which also holds the head, gets none.
    """
    if stages == 1:
        return (range(layers),)
    sizes = [layers // stages] * stages
    for spare in range(layers % stages):
        sizes[-2 - spare] += 1
    starts = [sum(sizes[:stage]) for stage in range(stages)]
    return tuple(range(start, start + size) for start, size in zip(starts, sizes, strict=True))


def layers_within(own: tuple[int, ...], stage: range) -> tuple[int, ...]:
    """Those of some layers, in ascending order, that stand on a stage; the same object where all of them do."""
    return own[bisect_left(own, stage.start) : bisect_left(own, stage.stop)]


def check_layout(layout: Layout, architecture: Architecture, counted_by: str | None = None) -> None:
    """Raise ValidationError where the model cannot be split so, saying which counts work.

    `counted_by` is the name that ranks are counted by where neither a tensor- nor a pipeline-parallel size was given.
    """
    faults = []
    if layout.tensor > 1 and not divides(layout.tensor, architecture, expert=layout.expert):
        works = ", ".join(map(str, tensor_counts(architecture, expert=layout.expert)))
        detail = f"{_heads(architecture)} cannot be split over {layout.tensor} ranks; these counts work: {works}."
        faults.append(Fault(f"/{counted_by or 'tensor_parallel'}", detail))
    if layout.pipeline > architecture.layers:
        detail = f"{architecture.layers} layers cannot fill {layout.pipeline} pipeline stages."
        faults.append(Fault(f"/{counted_by or 'pipeline_parallel'}", detail))
    if layout.expert and not architecture.experts[0]:
        faults.append(Fault("/expert_parallel", "The model has no routed experts to spread."))
    elif layout.expert and layout.tensor > architecture.experts[0]:
        detail = f"{architecture.experts[0]} experts cannot be spread over {layout.tensor} ranks."
        faults.append(Fault("/expert_parallel", detail))
    if faults:
        raise ValidationError(*faults)


def divides(tensor: int, architecture: Architecture, *, expert: bool = False) -> bool:
    """Whether every divided matrix splits evenly, and KV heads over the ranks or the ranks over KV heads.

    Routed experts are not split but spread where `expert` parallelism is on.
    """
    if architecture.divided_sizes[expert] % tensor:
        return False
    return all(_shares(c.spec.kv_heads, tensor) for c in architecture.caches)


def tensor_counts(architecture: Architecture, *, expert: bool = False) -> tuple[int, ...]:
    """The tensor-parallel sizes that work, smallest first."""
    most = min(architecture.query_heads, _MOST_RANKS)
    counts = (n for n in range(1, most + 1) if divides(n, architecture, expert=expert))
    return tuple(islice(counts, _MAX_LISTED))


def _shares(kv_heads: int, tensor: int) -> bool:
    return kv_heads % tensor == 0 or tensor % kv_heads == 0


def _heads(architecture: Architecture) -> str:
    return f"{architecture.query_heads} query heads over {architecture.kv_heads} KV heads, with the layers' widths,"
