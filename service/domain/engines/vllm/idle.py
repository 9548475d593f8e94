"""Settings that were asked and change nothing of an answer: said, so that nobody takes them for counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.engines.vllm.graph_rules import NO_GRAPHS
from service.domain.engines.vllm.shapes import tower_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from service.domain.engines.vllm.setting import Setting

_GRAPHS: Final = ("graph_mode", "graph_sizes", "graph_size_limit")
_ENCODER: Final = (
    *("encoder_budget_tokens", "encoder_limits", "encoder_image_pixels"),
    *("encoder_profiling", "encoder_data_parallel"),
)
_NOTHING: Final = (NO_GRAPHS, "auto")


def idle_warnings(setting: Setting, asked: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for names of the question that do not matter beside the others; no answer depends on it."""
    for why, names in _idle(setting):
        found = [name for name in names if _asks(asked.get(name))]
        if found:
            yield f"{' and '.join(found)} {'has' if len(found) == 1 else 'have'} no effect: {why}."


def _idle(setting: Setting) -> Iterator[tuple[str, tuple[str, ...]]]:
    own, model = setting.asked, setting.model
    if own.enforce_eager:
        yield "enforce_eager has no graphs captured", _GRAPHS
    elif own.graph_mode == NO_GRAPHS:
        yield "graph_mode none has no graphs captured", _GRAPHS[1:]
    if not model.architecture.experts[0]:
        yield f"{model.name} has no routed experts", ("moe_backend",)
    if not tower_of(model).hidden:
        yield f"{model.name} takes text alone", _ENCODER


def _asks(value: object) -> bool:
    """Whether a value asks for something: a budget of 0 does not, nor do limits of 0."""
    if isinstance(value, list | tuple):
        return not all(str(entry).endswith("=0") for entry in value)
    return bool(value) and value not in _NOTHING
