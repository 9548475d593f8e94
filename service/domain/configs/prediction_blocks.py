"""What a multi-token-prediction layer has beside a decoder layer of its model (sizes: accounting 6)."""

from __future__ import annotations

from service.domain.architecture import Module, ModuleKind, Shard
from service.domain.configs import blocks


def fusion(hidden: int, layers: tuple[int, ...]) -> list[Module]:
    """A projection of two hidden sizes to one and five norms: the layer's own two, and three around the projection."""
    fused = blocks.matrix("eh_proj", ModuleKind.PREDICTION, hidden, 2 * hidden, layers, Shard.REPLICATED)
    return [fused, blocks.vector("norms", hidden, layers, per_layer=5)]


def tables(vocabulary: int, hidden: int, layers: tuple[int, ...]) -> list[Module]:
    """The token table and the head, where a checkpoint stores them again with each prediction layer."""
    kind, rows = ModuleKind.PREDICTION, Shard.ROWS
    return [blocks.matrix(name, kind, vocabulary, hidden, layers, rows) for name in ("embed_tokens", "lm_head")]
