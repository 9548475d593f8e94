"""The blocks that zamba2 uses again and again, and what each use has of its own."""

from __future__ import annotations

from service.domain.architecture import Module, ModuleKind, Shard
from service.domain.configs import blocks
from service.domain.configs.base import Decoder
from service.domain.configs.blocks import matrix
from service.domain.configs.fields import Fields

_ATTENTION, _MLP = ModuleKind.ATTENTION, ModuleKind.MLP
_ROWS, _COLUMNS, _WHOLE = Shard.ROWS, Shard.COLUMNS, Shard.REPLICATED


def _width(fields: Fields, shape: Decoder) -> int:
    return fields.optional("intermediate_size", least=0) or 4 * shape.hidden


def shared_block(fields: Fields, shape: Decoder, owners: tuple[int, ...]) -> list[Module]:
    """Attention on twice the hidden size and an MLP, stored with the layers that use them first."""
    hidden, heads, width = shape.hidden, shape.heads, _width(fields, shape)
    biased = fields.flag("add_bias_linear", default=False)
    inner = heads.query * heads.key_width
    attention = blocks.attention(2 * hidden, heads, owners)[:-1]
    return [
        *attention,
        matrix("o_proj", _ATTENTION, hidden, inner, owners, _COLUMNS, heads.query),
        *blocks.gated_mlp(hidden, width, owners, biased=biased),
        blocks.vector("shared_norms", 3 * hidden, owners),
    ]


def adapters(fields: Fields, shape: Decoder, users: tuple[int, ...]) -> list[Module]:
    """What each use adds of its own: a narrow pair beside the MLP's first projection, an option for attention."""
    rank, wide = fields.integer("adapter_rank"), 2 * shape.hidden
    made = [
        matrix("mlp_adapter.down", _MLP, rank, shape.hidden, users, _WHOLE),
        matrix("mlp_adapter.up", _MLP, 2 * _width(fields, shape), rank, users, _ROWS),
    ]
    if fields.flag("use_shared_attention_adapter", default=False):
        made.append(Module("attention_adapters.down", _ATTENTION, rank, wide, users, 3, 3))
        made.append(Module("attention_adapters.up", _ATTENTION, wide, rank, users, 3, 3, _ROWS))
    return made
