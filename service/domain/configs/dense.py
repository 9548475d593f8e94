"""The layer that most families share, as a set of switches: attention, then an MLP, with their norms and biases."""

from __future__ import annotations

from typing import NamedTuple

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import blocks
from service.domain.configs.base import Decoder, architecture, decoder, frame
from service.domain.configs.fields import Fields


class Layer(NamedTuple):
    """What a family's layer has beside four projections and an MLP.

    `head_norms` are norms over one head's width, `wide_norms` over all heads at once; `norms` counts the others, of
    the hidden size (0: norms have no weights at all); a biased norm is a LayerNorm with its two vectors.
    """

    qkv_bias: bool = False
    out_bias: bool = False
    mlp_bias: bool = False
    gated: bool = True
    head_norms: bool = False
    wide_norms: bool = False
    norms: int = 2
    norm_bias: bool = False


def attention(shape: Decoder, layer: Layer, layers: tuple[int, ...]) -> list[Module]:
    """Attention of these layers with its biases and norms."""
    modules = blocks.attention(shape.hidden, shape.heads, layers)
    if layer.qkv_bias:
        modules += blocks.attention_biases(shape.heads, layers)
    if layer.out_bias:
        modules.append(blocks.vector("o_proj.bias", shape.hidden, layers, ModuleKind.BIAS))
    if layer.head_norms:
        modules += blocks.head_norms(shape.heads, layers)
    if layer.wide_norms:
        modules += blocks.wide_norms(shape.heads, layers)
    return modules


def mlp(hidden: int, width: int, layer: Layer, layers: tuple[int, ...]) -> list[Module]:
    """The dense MLP of these layers."""
    kind = blocks.gated_mlp if layer.gated else blocks.plain_mlp
    return kind(hidden, width, layers, biased=layer.mlp_bias)


def read(  # noqa: PLR0913  # what an architecture is put together from
    fields: Fields,
    layer: Layer,
    *,
    shape: Decoder | None = None,
    width: int | None = None,
    windows: tuple[int | None, ...] | None = None,
    extra: tuple[Module, ...] = (),
) -> Architecture:
    """Read a decoder of equal dense layers.

    `shape`, `width` and `windows` are for families with their own rules for sizes, MLP width and windows; without
    them, the usual names hold and every layer keeps all tokens. `extra` are modules that the switches do not cover.
    """
    shape = shape or decoder(fields)
    layers = shape.all_layers
    modules = [
        *frame(shape, layer.norms, biased=layer.norm_bias),
        *attention(shape, layer, layers),
        *mlp(shape.hidden, width or fields.integer("intermediate_size"), layer, layers),
        *extra,
    ]
    return architecture(fields, shape, modules, blocks.caches(shape.heads, windows or (None,) * shape.layers))
