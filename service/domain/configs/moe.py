"""Layers whose MLP is a router and experts: which layers have them, and the modules they consist of."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.domain.architecture import Architecture, Module, ModuleKind, Shard
from service.domain.configs import blocks, dense
from service.domain.configs.base import Decoder, architecture, frame
from service.domain.configs.fields import MAX_LAYERS, Fields

MAX_PREDICTED = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """Gated experts of one width: `count` in a layer, `active` for a token, `shared` the joint width of the shared.

    A router's or an expert's bias counts only where the model code keeps it as a parameter and not as a buffer.
    """

    count: int
    active: int
    width: int
    shared: int = 0
    shared_gate: bool = False
    router_bias: bool = False
    expert_bias: bool = False


def modules(hidden: int, experts: Experts, layers: tuple[int, ...], *, shared_bias: bool = False) -> list[Module]:
    """The router, the routed experts and the shared ones of these layers."""
    if not layers:
        return []
    expert = blocks.gated_mlp(hidden, experts.width, layers, ModuleKind.EXPERT, biased=experts.expert_bias)
    made = [
        *blocks.router(hidden, experts.count, layers, biased=experts.router_bias),
        *blocks.routed(expert, experts.count, experts.active),
    ]
    if experts.shared:
        made += blocks.shared_experts(hidden, experts.shared, layers, biased=shared_bias)
    if experts.shared_gate:
        made.append(blocks.vector("shared_expert_gate", hidden, layers, ModuleKind.ROUTER))
    return made


def read(  # noqa: PLR0913  # what an architecture is put together from
    fields: Fields,
    shape: Decoder,
    layer: dense.Layer,
    experts: Experts,
    *,
    sparse: tuple[int, ...] | None = None,
    windows: tuple[int | None, ...] | None = None,
    extra: tuple[Module, ...] = (),
) -> Architecture:
    """Read a decoder with experts in the `sparse` layers (all, if not given) and a dense MLP in the others."""
    layers = shape.all_layers
    sparse = layers if sparse is None else sparse
    made = [
        *frame(shape, layer.norms, biased=layer.norm_bias),
        *dense.attention(shape, layer, layers),
        *modules(shape.hidden, experts, sparse, shared_bias=layer.mlp_bias),
        *extra,
    ]
    if len(sparse) < len(layers):
        plain = tuple(sorted(set(layers) - set(sparse)))
        made += dense.mlp(shape.hidden, fields.integer("intermediate_size"), layer, plain)
    return architecture(fields, shape, made, blocks.caches(shape.heads, windows or (None,) * shape.layers))


def sparse_layers(fields: Fields, count: int, first: int | None = None) -> tuple[int, ...]:
    """Layers with experts: by `mlp_layer_types`, by the ones of a `moe_layer_freq` list, else behind the first dense.

    `first` is the first of them in a family whose files do not say `first_k_dense_replace`.
    """
    words = fields.choices("mlp_layer_types", ("dense", "sparse"), count)
    if words:
        return tuple(layer for layer, word in enumerate(words) if word == "sparse")
    if isinstance(fields.get("moe_layer_freq"), list):
        ones = fields.per_layer("moe_layer_freq", count, most=1) or ()
        return tuple(layer for layer, one in enumerate(ones) if one)
    return tuple(range(fields.integer("first_k_dense_replace", default=first, least=0), count))


def enumerated_layers(fields: Fields, count: int, first: int) -> tuple[int, ...]:
    """Layers with experts by `moe_layers_enum`, a list or a text of numbers with commas; else as `sparse_layers`."""
    listed = fields.get("moe_layers_enum")
    if listed is None or fields.has("mlp_layer_types"):
        return sparse_layers(fields, count, first)
    if isinstance(listed, str):
        words = listed.split(",")
        if not all(word.strip().isdecimal() for word in words) or len(words) > MAX_LAYERS:
            raise fields.refuse("moe_layers_enum", "moe_layers_enum must be whole numbers with commas between them.")
        chosen = {int(word) for word in words}
    else:
        chosen = set(fields.integers("moe_layers_enum"))
    return tuple(layer for layer in range(count) if layer in chosen)


def stored(experts: Experts) -> Experts:
    """The experts of a prediction layer, which only checkpoints count: with the router's correction bias."""
    return replace(experts, router_bias=True)


def prediction(
    shape: Decoder, layer: dense.Layer, mlp: list[Module], layers: tuple[int, ...], *, norms: int = 3
) -> tuple[Module, ...]:
    """Multi-token-prediction layers: a layer of the model each, and what joins its two inputs.

    `layers` stand behind the model's own (`predicted_layers`), and `mlp` are their MLPs; `norms` are those beside a
    layer's own, of the two inputs and mostly of the output.
    """
    joined = [
        *dense.attention(shape, layer, layers),
        *mlp,
        blocks.vector("norms", shape.hidden, layers, per_layer=layer.norms + norms),
        blocks.matrix("eh_proj", ModuleKind.ATTENTION, shape.hidden, 2 * shape.hidden, layers, Shard.REPLICATED),
    ]
    return tuple(blocks.prediction(joined))


def predicted_layers(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """Indices of the multi-token-prediction layers that a config counts beside its layers."""
    count = fields.integer("num_nextn_predict_layers", "num_mtp_layers", default=0, least=0, most=MAX_PREDICTED)
    return tuple(range(shape.layers, shape.layers + count))
