"""Which heads each layer of gemma 4 has: full layers wider ones than windows, or as the file says by layer."""

from __future__ import annotations

from service.domain.configs import layer_kinds
from service.domain.configs.base import Decoder, grouped
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import Fields

_DIGITS = 4
_OVERRIDES = frozenset({"head_dim", "num_key_value_heads"})


def by_layer(fields: Fields, shape: Decoder, words: tuple[str, ...], *, same: bool) -> tuple[Heads, ...]:
    """The published files state what full layers have, saved ones state it layer by layer."""
    overrides = fields.inner("per_layer_config")
    if overrides is not None:
        stated = {_layer(overrides, name, shape.layers): name for name in overrides.values}
        return tuple(_overridden(overrides, shape, stated.get(layer)) for layer in shape.all_layers)
    if "per_layer_config" in fields.values:
        return (shape.heads,) * shape.layers  # a null overrides nothing, as an empty object does
    kv = fields.optional("num_global_key_value_heads") if same else None
    width = fields.integer("global_head_dim", default=shape.heads.key_width)
    wide = grouped(fields, shape.heads.query, kv or shape.heads.kv, width, shape.hidden)
    return tuple(wide if word == layer_kinds.FULL else shape.heads for word in words)


def _layer(overrides: Fields, name: str, layers: int) -> int:
    if not name.isdecimal() or len(name) > _DIGITS or int(name) >= layers:
        raise overrides.refuse(name[:16], f"per_layer_config must name layers from 0 to {layers - 1}.")
    return int(name)


def _overridden(overrides: Fields, shape: Decoder, name: str | None) -> Heads:
    inner = overrides.inner(name) if name is not None else None
    if inner is None:
        return shape.heads
    if unknown := sorted(set(inner.values) - _OVERRIDES):
        raise inner.refuse(str(unknown[0])[:40], f"Only {' and '.join(sorted(_OVERRIDES))} by layer are known.")
    kv = inner.integer("num_key_value_heads", default=shape.heads.kv)
    return grouped(inner, shape.heads.query, kv, inner.integer("head_dim", default=shape.heads.key_width), shape.hidden)
