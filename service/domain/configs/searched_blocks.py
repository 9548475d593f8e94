"""What an architecture search left of each layer of nemotron-nas: its attention and its MLP, or neither."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from service.domain.configs.fields import Fields
from service.domain.units import ceil_div

_MULTIPLE = 256


@dataclass(frozen=True, slots=True)
class Block:
    """KV heads of the attention and width of the MLP; None where that half does nothing, 0 where it is one matrix."""

    kv_heads: int | None
    width: int | None


def listed(fields: Fields, count: int, hidden: int, query: int) -> list[Block]:
    """The blocks of the first `count` layers; a list that is too short is refused."""
    listed = fields.get("block_configs")
    if not isinstance(listed, list) or len(listed) < count:
        raise fields.refuse("block_configs", f"block_configs must list one block for each of the {count} layers.")
    made = []
    for layer, entry in enumerate(listed[:count]):
        pointer = f"{fields.pointer}/block_configs/{layer}"
        if not isinstance(entry, dict):
            raise fields.refuse(f"block_configs/{layer}", "A block must be an object.")
        block = Fields(entry, pointer)
        made.append(Block(_kv_heads(block, query), _width(block, hidden)))
    return made


def _kv_heads(block: Fields, query: int) -> int | None:
    half = block.inner("attention")
    if half is None:
        raise block.refuse("attention", "The block has no attention.")
    if half.flag("no_op", default=False):
        return None
    if half.flag("replace_with_linear", default=False):
        return 0
    shared = half.integer("n_heads_in_group", most=query)
    if query % shared:
        raise half.refuse("n_heads_in_group", f"{query} query heads do not divide into groups of {shared}.")
    return query // shared


def _width(block: Fields, hidden: int) -> int | None:
    half = block.inner("ffn")
    if half is None:
        raise block.refuse("ffn", "The block has no ffn.")
    if half.flag("no_op", default=False):
        return None
    if half.flag("replace_with_linear", default=False):
        return 0
    if half.has("intermediate_size"):
        return half.integer("intermediate_size")
    if not half.has("ffn_mult"):
        raise half.refuse("ffn_mult", "The block has no ffn_mult.")
    width = int(2 * Fraction(half.number("ffn_mult", 0.0)) * hidden / 3)
    if width < 1:
        raise half.refuse("ffn_mult", "ffn_mult must be above 0.")
    return _MULTIPLE * ceil_div(width, _MULTIPLE)
