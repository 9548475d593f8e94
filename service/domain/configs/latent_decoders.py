"""What decoders with latent attention share around it: sizes, experts behind dense layers, prediction layers."""

from __future__ import annotations

from service.domain.architecture import CacheLayers, Module
from service.domain.configs import blocks, latent_blocks, moe, prediction_blocks
from service.domain.configs.base import HIDDEN, MAX_EXPERTS, Decoder, split
from service.domain.configs.fields import Fields
from service.domain.configs.latent_blocks import Latent

EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts")


def latent_decoder(fields: Fields, value_width: int | None = None) -> tuple[Decoder, Latent]:
    """The sizes of the decoder, and of its attention."""
    attention = latent_blocks.latent(fields, value_width)
    shape = Decoder(
        layers=fields.layers(),
        hidden=fields.integer(*HIDDEN),
        heads=attention.heads,
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=False),
    )
    return shape, attention


def caches(shape: Decoder, attention: Latent) -> tuple[CacheLayers, ...]:
    """A vector in every layer."""
    return latent_blocks.caches(attention, shape.all_layers)


def sparse_layers(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """The layers with experts; refuses a spacing of them, which no published file has."""
    freq = fields.get("moe_layer_freq")
    if not isinstance(freq, list) and fields.integer("moe_layer_freq", default=1) != 1:
        raise fields.refuse("moe_layer_freq", "Only experts in every layer behind the dense ones are known.")
    return moe.sparse_layers(fields, shape.layers, 0)


def experts(fields: Fields, width_names: tuple[str, ...] = ("moe_intermediate_size",)) -> moe.Experts:
    """Routed experts, and the shared ones as one MLP of their joint width."""
    count = fields.integer(*EXPERTS, most=MAX_EXPERTS)
    # deepseek_v2's class has a null here, which no model runs with: a null is a silence.
    active = fields.integer("num_experts_per_tok", default=fields.defaults.get("num_experts_per_tok"))
    if active > count:
        raise fields.refuse("num_experts_per_tok", f"A token cannot visit {active} of {count} experts.")
    width = fields.integer(*width_names)
    shared = fields.integer("n_shared_experts", "num_shared_experts", default=0, least=0, most=MAX_EXPERTS)
    return moe.Experts(count=count, active=active, width=width, shared=shared * width)


def mlps(fields: Fields, shape: Decoder, *, biased: bool = False) -> list[Module]:
    """Experts in the sparse layers, a gated MLP in the others."""
    sparse, plain = split(shape.all_layers, set(sparse_layers(fields, shape)).__contains__)
    made = moe.modules(shape.hidden, experts(fields), sparse, shared_bias=biased) if sparse else []
    if plain:
        made += blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain, biased=biased)
    return made


def predicted(
    fields: Fields, shape: Decoder, attention: Latent, *, tables: bool = True, extra: tuple[Module, ...] = ()
) -> list[Module]:
    """Prediction layers: a layer with experts, and what fuses a hidden state with a token.

    DeepSeek's checkpoints store table and head again with them, GLM 5's do not (`tables`).
    """
    layers = moe.predicted_layers(fields, shape)
    if not layers:
        return []
    made = [
        *latent_blocks.attention(shape.hidden, attention, layers),
        *moe.modules(shape.hidden, moe.stored(experts(fields)), layers),
        *prediction_blocks.fusion(shape.hidden, layers),
        *extra,
    ]
    if tables:
        made += prediction_blocks.tables(shape.vocabulary, shape.hidden, layers)
    return blocks.prediction(made)
