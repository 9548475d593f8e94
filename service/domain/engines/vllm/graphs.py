"""What captured graphs take as the engine estimates it before it sizes the cache (accounting 2.8).

The engine captures the two largest sizes of each kind and takes the second for what every further one adds; the first
holds what all share (profile_cudagraph_memory of v1/worker/gpu_model_runner.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.latent import LatentCache
from service.domain.engines.plain import PLAIN_TYPES
from service.domain.engines.vllm.activations import element_bytes, workspace_bytes
from service.domain.engines.vllm.adapters import graph_kinds
from service.domain.engines.vllm.attending import (
    FLASHINFER,
    attends_in_any_graph,
    flashinfer_attends,
    replays_single_tokens,
)
from service.domain.engines.vllm.graph_rules import NO_GRAPHS, PIECES, PIECES_AND_STEPS, STEPS, WHOLE
from service.domain.engines.vllm.rules import NOTHING, Span
from service.domain.engines.vllm.shapes import tower_of, widths_of
from service.domain.errors import Fault, NotSupported, ValidationError, nearest
from service.domain.spans import GRAPH_MODES
from service.domain.units import ceil_div, whole

if TYPE_CHECKING:
    from service.domain.engines.vllm.graph_rules import GraphBytes
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Batch, Setting

_WITH_PIECES = frozenset({PIECES, PIECES_AND_STEPS, WHOLE})
_WITH_STEPS = frozenset({STEPS, PIECES_AND_STEPS, WHOLE})
"""Whole graphs become both kinds where attention cannot be part of them (resolve_cudagraph_mode_and_sizes)."""
_WIDE_BYTES, _HALF_BYTES = 4, 2
_SPLITTING = frozenset({"flash_attn", "flash_attn_mla"})
_DATA_CENTRE_BLACKWELL = 10


def graphs_of(setting: Setting, rules: Rules, batch: Batch) -> tuple[Span, str]:
    """The estimate, and which sizes it counts."""
    rule, architecture = rules.constants.graph, setting.model.architecture
    pieces, steps = sizes_of(setting, rules, batch)
    if not pieces and not steps:
        return NOTHING, "no graphs are captured"
    layers = ceil_div(architecture.layers, setting.layout.pipeline)
    each = _bytes(setting, rules)
    kinds = graph_kinds(setting, rules)
    size = _first(setting, rules, pieces, steps)
    size += layers * (max(0, kinds * len(pieces) - 1) * each.pieces + max(0, kinds * len(steps) - 1) * each.whole)
    note = f"estimate for {len(pieces)} sizes in pieces and {len(steps)} whole x {layers} layers"
    if kinds > 1:
        note += ", with adapters and without"
    return Span(whole(size * rule.low), size, whole(size * rule.high)), note


def check_graphs(setting: Setting, batch: Batch) -> None:
    """Refuse modes that the engine has not, sizes that contradict each other, and what follows from other kernels."""
    asked, mode = setting.asked, setting.asked.graph_mode
    if mode is not None and mode not in GRAPH_MODES:
        detail = f"No graphs are captured in mode {mode[:40]!r}; these are: {', '.join(GRAPH_MODES)}."
        raise ValidationError(Fault("/graph_mode", detail, nearest(mode, GRAPH_MODES)))
    if asked.enforce_eager or mode == NO_GRAPHS:
        return
    largest = max((size for size in asked.graph_sizes or () if size <= batch.tokens), default=0)
    if asked.graph_sizes is not None and asked.graph_size_limit not in {None, largest}:
        detail = f"graph_size_limit is {asked.graph_size_limit}, and the largest of graph_sizes {largest}."
        raise ValidationError(Fault("/graph_size_limit", detail))
    if mode == WHOLE and setting.weights.name not in PLAIN_TYPES and not attends_in_any_graph(setting):
        detail = f"Whether steps of {setting.weights.name} are still cut into pieces is not known for graph_mode full."
        raise NotSupported(Fault("/graph_mode", detail, (PIECES_AND_STEPS, STEPS)))


def _bytes(setting: Setting, rules: Rules) -> GraphBytes:
    experts = setting.model.architecture.experts[0] > 0
    return rules.constants.graph.bytes_of(setting.weights.name, experts=experts)


def sizes_of(setting: Setting, rules: Rules, batch: Batch) -> tuple[list[int], list[int]]:
    """Sizes in tokens, rising: those captured in pieces, and those of whole steps; by mode either may be none."""
    asked, mode = setting.asked, setting.asked.graph_mode or PIECES_AND_STEPS
    tokens = batch.sequences * (1 + asked.speculative_tokens)
    sizes = _sizes(setting, rules, batch, tokens)
    if mode == WHOLE and attends_in_any_graph(setting):
        return [], sizes
    pieces = sizes if mode in _WITH_PIECES else []
    if mode not in _WITH_STEPS or (asked.speculative_tokens and replays_single_tokens(setting)):
        return pieces, []
    return pieces, [size for size in sizes if size <= tokens]


def _sizes(setting: Setting, rules: Rules, batch: Batch, tokens: int) -> list[int]:
    """Sizes as asked, or the release's own up to the largest asked for, else to twice the tokens of a decode step."""
    asked, rule = setting.asked, rules.graphs
    if asked.graph_sizes is not None:
        return sorted({size for size in asked.graph_sizes if size <= batch.tokens})
    large = (setting.device.capability or 0) // 1 == _DATA_CENTRE_BLACKWELL
    most = min(2 * tokens, rule.most_on_data_centre_blackwell if large else rule.most)
    return rules.constants.graph.sizes(min(asked.graph_size_limit or most, batch.tokens))


def _first(setting: Setting, rules: Rules, pieces: list[int], steps: list[int]) -> int:
    """The larger of the first of each kind; where no pieces are captured the first step takes what both do."""
    step = _first_step(setting, rules, max(steps, default=0))
    if pieces:
        return max(_first_piece(setting, rules, max(pieces)), step)
    beside = _bytes(setting, rules).first if flashinfer_attends(setting) else 0
    return _first_piece(setting, rules, max(steps)) + step - beside


def _first_piece(setting: Setting, rules: Rules, tokens: int) -> int:
    """Libraries on a stream of their own, plain matrices with two workspaces, and a pass over the largest size."""
    workspaces = workspace_bytes(setting, rules) * (2 if setting.weights.name in PLAIN_TYPES else 1)
    shape = widths_of(setting.model, setting.layout)
    return _bytes(setting, rules).first + workspaces + element_bytes(setting) * tokens * shape.widest


def _first_step(setting: Setting, rules: Rules, tokens: int) -> int:
    """FlashInfer's workspace, or partial results of attention that is split for graphs of every length (flash_attn.py).

    The workspace is taken when a whole step is captured first: no step of the profiled pass attends.
    """
    rule, backend = rules.constants.graph, setting.asked.attention_backend
    if tokens and flashinfer_attends(setting):
        return _bytes(setting, rules).first + rules.constants.backends[FLASHINFER].workspace_bytes
    splits = setting.device.capability == rule.splits_capability and tokens <= rule.splits_most
    if not splits or (backend is not None and backend.casefold() not in _SPLITTING):
        return 0
    if element_bytes(setting) != _HALF_BYTES or tower_of(setting.model).hidden:
        return 0
    return _WIDE_BYTES * rule.splits * tokens * _attention_width(setting)


def _attention_width(setting: Setting) -> int:
    """Elements a token that attention puts out on a rank, the widest layer's."""
    wide = 0
    for owners in setting.model.architecture.caches:
        spec = owners.spec
        width = spec.read_width if isinstance(spec, LatentCache) else spec.value_width
        wide = max(wide, owners.query_heads * width)
    return ceil_div(wide, setting.layout.tensor)
