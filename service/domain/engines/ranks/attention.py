"""Attention that is data parallel inside tensor parallel: its weights and caches are divided by fewer ranks."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.domain.architecture import ModuleKind
from service.domain.loads import rank_loads
from service.domain.memo import remembered
from service.domain.units import ceil_div
from service.domain.weights import rank_weights

if TYPE_CHECKING:
    from service.domain.architecture import Architecture
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad
    from service.domain.model import Model
    from service.domain.parallel import Layout
    from service.domain.precision import WeightFormat

_ATTENTION = frozenset({ModuleKind.ATTENTION, ModuleKind.CROSS_ATTENTION, ModuleKind.INDEXER, ModuleKind.MIXER})
_EMBEDDING = frozenset({ModuleKind.EMBEDDING})


def attention_ranks(setting: Setting) -> int:
    """Ranks of attention data parallel."""
    return int(setting.asked.get("attention_data_parallel") or 1)


def attention_loads(setting: Setting, attention_ranks: int) -> tuple[RankLoad, ...]:
    """Every stage's fullest rank, its attention and its caches divided by fewer ranks than the rest."""
    loads = setting.loads()
    if attention_ranks == 1:
        return loads
    scenario = setting.scenario
    fewer = replace(scenario.layout, tensor=scenario.layout.tensor // attention_ranks)
    caches = rank_loads(scenario.model, scenario.weights, scenario.cache, fewer)
    own, alike = _both(scenario.model, scenario.weights, scenario.layout, fewer)
    return tuple(
        load._replace(weight_bytes=ceil_div(load.weight_bytes * here, there), terms=kept.terms)
        for load, kept, here, there in zip(loads, caches, own, alike, strict=True)
    )


def _both(model: Model, number: WeightFormat, layout: Layout, fewer: Layout) -> tuple[list[int], list[int]]:
    """Bytes of every stage with attention over fewer ranks, and all alike; remembered with the model."""
    architecture, key = model.architecture, ("attention-ranks", number, layout, fewer)
    found: tuple[list[int], list[int]] = remembered(
        model, key, lambda: tuple(_counted(architecture, number, layout, each) for each in (fewer, layout))
    )
    return found


def _counted(architecture: Architecture, number: WeightFormat, layout: Layout, attention: Layout) -> list[int]:
    """Bytes of every stage by shapes, attention in a layout of its own; the embedding whole where the two differ."""
    shapes = replace(number, file_bytes=None)
    whole = replace(layout, tensor=1) if attention != layout else layout
    sums = [0] * layout.pipeline
    for kinds, where in ((_ATTENTION, attention), (_EMBEDDING, whole), (None, layout)):
        chosen = tuple(
            m for m in architecture.modules if (m.kind in kinds if kinds else m.kind not in _ATTENTION | _EMBEDDING)
        )
        for stage, rank in enumerate(rank_weights(replace(architecture, modules=chosen), shapes, where)):
            sums[stage] += rank.bytes
    return sums
