"""t5 and mt5: an encoder, and a decoder whose layers also read the encoder's output from a cache of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place
from service.domain.cache.cross import CrossCache
from service.domain.configs import blocks
from service.domain.configs.base import Decoder, architecture
from service.domain.configs.blocks import Heads
from service.domain.configs.encoder_blocks import Tower, depth
from service.domain.configs.fields import MAX_LAYERS, Fields, shown

MODEL_TYPES = ("t5", "mt5")
_FIRST: Mapping[str, Any] = {
    "vocab_size": 32128,
    "d_model": 512,
    "d_kv": 64,
    "d_ff": 2048,
    "num_layers": 6,
    "num_heads": 8,
    "relative_attention_num_buckets": 32,
    "feed_forward_proj": "relu",
}
_MULTILINGUAL: Mapping[str, Any] = {
    **_FIRST,
    "vocab_size": 250112,
    "d_ff": 1024,
    "num_layers": 8,
    "num_heads": 6,
    "feed_forward_proj": "gated-gelu",
}
_DEFAULTS = {"t5": _FIRST, "mt5": _MULTILINGUAL}
_PROMPT_TOKENS = 512
_NOTE = "The encoder's output is taken as {0} tokens long, as in training; relative positions set no limit"


def read(fields: Fields) -> Architecture:
    """Prompts go to the encoder, so that the decoder keeps the answer alone.

    A head that the file says is not tied is counted, which the model code of late versions does not (accounting 6).
    """
    fields = fields.defaulting(_DEFAULTS[fields.text("model_type") or "t5"])
    fields.get("is_encoder_decoder", "is_decoder", "add_cross_attention")
    shape = _shape(fields)
    heads, tokens = shape.heads, fields.integer("n_positions", default=_PROMPT_TOKENS)
    cross = CrossCache(heads.kv, heads.key_width, heads.value_width, tokens)
    caches = (
        CacheLayers(blocks.cache(heads, None), shape.all_layers, heads.query),
        CacheLayers(cross, shape.all_layers, heads.query),
    )
    made = [*_frame(fields, shape), *_decoder(fields, shape), *_encoder(fields, shape)]
    read_as = architecture(fields, shape, made, caches)
    return replace(read_as, context_tokens=None, assumptions=(*read_as.assumptions, _NOTE.format(tokens)))


def _shape(fields: Fields) -> Decoder:
    heads, width = fields.integer("num_heads", "num_attention_heads"), fields.integer("d_kv", "head_dim")
    layers = fields.optional("num_decoder_layers", most=MAX_LAYERS)
    return Decoder(
        layers=layers or fields.integer("num_layers", "num_hidden_layers", most=MAX_LAYERS),
        hidden=fields.integer("d_model", "hidden_size"),
        heads=Heads(heads, heads, width, width),
        vocabulary=fields.integer("vocab_size"),
        # Only a false unties: the code takes a null for a silence here.
        tied=fields.get("tie_word_embeddings") is None or fields.flag("tie_word_embeddings", default=True),
    )


def _frame(fields: Fields, shape: Decoder) -> list[Module]:
    buckets = fields.integer("relative_attention_num_buckets")
    bias = Module("relative_attention_bias", ModuleKind.POSITION, buckets, shape.heads.query, place=Place.FIRST)
    return [*blocks.embedding(shape.vocabulary, shape.hidden, tied=shape.tied), bias, blocks.final_norm(shape.hidden)]


def _gated(fields: Fields) -> bool:
    word = fields.text("feed_forward_proj") or ""
    if len(word.split("-")) > 2 or not word:  # noqa: PLR2004  # `gated-` and a function
        raise fields.refuse("feed_forward_proj", f"feed_forward_proj {shown(word)} is not known.")
    return word.startswith("gated-")


def _decoder(fields: Fields, shape: Decoder) -> list[Module]:
    layers, hidden = shape.all_layers, shape.hidden
    cross = blocks.attention(hidden, shape.heads, layers, ModuleKind.CROSS_ATTENTION)
    mlp = blocks.gated_mlp if _gated(fields) else blocks.plain_mlp
    return [
        *blocks.attention(hidden, shape.heads, layers),
        *(replace(m, name=f"cross.{m.name}") for m in cross),
        *mlp(hidden, fields.integer("d_ff"), layers, biased=False),
        blocks.vector("layer_norms", hidden, layers, per_layer=3),
    ]


def _encoder(fields: Fields, shape: Decoder) -> list[Module]:
    hidden, layers, inner = shape.hidden, depth(fields, "num_layers", "num_hidden_layers"), shape.heads
    tower = Tower(ModuleKind.ENCODER, "encoder")
    tower.attention(hidden, layers, bias=False, inner=inner.query * inner.key_width)
    width = fields.integer("d_ff")
    if _gated(fields):
        tower.gated_mlp(hidden, width, layers, bias=False)
    else:
        tower.mlp(hidden, width, layers, bias=False)
    tower.matrix("relative_attention_bias", fields.integer("relative_attention_num_buckets"), inner.query)
    tower.norm("layer_norms", hidden, 2 * layers + 1, bias=False)
    return tower.modules
