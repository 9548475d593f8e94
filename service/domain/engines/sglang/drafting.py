"""Drafters of SGLang: how many tokens they draft at a time, and what one of compressed attention loads."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.architecture import ModuleKind, Shard
from service.domain.cache.latent import LatentCache
from service.domain.engines.ranks.attention import attention_ranks
from service.domain.engines.ranks.padding import kernel_of
from service.domain.units import whole

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.compressed_rules import Compressed
    from service.domain.engines.sglang.rules import Rules

_HALF_BYTES: Final = 2
_FEW: Final = 2
_EDGES: Final = frozenset({ModuleKind.EMBEDDING, ModuleKind.HEAD})


def draft_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens drafted at a time: as asked, or as the release does for the family; none without a drafter."""
    method, asked = setting.asked.get("speculative_method"), setting.asked.get("speculative_tokens")
    if asked is not None or method is None or method in rules.constants.drafts.no_layers:
        return int(asked or 0)
    known = rules.constants.draft_tokens
    return known.get(setting.scenario.model.architecture.model_type, known[""])


def compressed_drafter_bytes(setting: Setting, known: Compressed) -> int:
    """A rank's share of the prediction layers as they are loaded, the table of words and the head once more with them.

    A prediction layer compresses nothing: it brings the tables of its angles where no other layer does.
    """
    architecture, tensor = setting.scenario.model.architecture, setting.scenario.layout.tensor
    ranks = tensor // attention_ranks(setting)
    layers = sum(_layer_bytes(setting, known, m) for m in architecture.modules if m.kind is ModuleKind.PREDICTION)
    edges = sum(m.elements for m in architecture.modules if m.kind in _EDGES) * _HALF_BYTES // ranks
    return layers + edges + (0 if _has_plain(architecture) else known.table_bytes(architecture.context_tokens or 0))


def _layer_bytes(setting: Setting, known: Compressed, module: Module) -> int:
    scenario = setting.scenario
    routed = module.per_layer > _FEW and module.columns > 1
    name = module.name.rpartition("mtp.")[2]
    ranks = scenario.layout.tensor // (1 if routed else attention_ranks(setting))
    if routed:
        experts = next(m for m in scenario.model.architecture.modules if m.kind is ModuleKind.EXPERT)
        number = scenario.weights.of(experts)
        kernel = kernel_of(known.kernels, number.name, setting)
        size = number.matrix_bytes(module.rows, module.columns, ModuleKind.EXPERT)
        size = whole(size * kernel.factor) if kernel else size
    elif name in known.memory.element_bytes or module.columns == 1:
        size = module.rows * module.columns * known.memory.element_bytes.get(name, _HALF_BYTES)
    else:
        size = scenario.weights.matrix_bytes(module.rows, module.columns, ModuleKind.EXPERT)
    return module.count * size // (1 if module.shard is Shard.REPLICATED else ranks)


def _has_plain(architecture: Architecture) -> bool:
    compressed = {
        layer for owners in architecture.caches if isinstance(owners.spec, LatentCache) for layer in owners.layers
    }
    return len(compressed) < architecture.layers
