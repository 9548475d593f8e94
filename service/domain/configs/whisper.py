"""whisper: an audio encoder, and a decoder with a fixed cache of the encoder's output beside its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind
from service.domain.cache.cross import CrossCache
from service.domain.configs import audio, blocks
from service.domain.configs.base import Decoder, architecture
from service.domain.configs.blocks import Heads
from service.domain.configs.fields import MAX_LAYERS, Fields

MODEL_TYPES = ("whisper",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 51865,
    "num_mel_bins": 80,
    "encoder_layers": 4,
    "decoder_layers": 4,
    "decoder_attention_heads": 6,
    "decoder_ffn_dim": 1536,
    "encoder_ffn_dim": 1536,
    "d_model": 384,
    "max_source_positions": 1500,
    "max_target_positions": 448,
    "tie_word_embeddings": True,
}


def read(fields: Fields) -> Architecture:
    """A window of sound is always encoded whole, so its cache is as large for a short one."""
    fields = fields.defaulting(DEFAULTS)
    fields.get("is_encoder_decoder", "add_cross_attention")
    shape = _shape(fields)
    heads, layers = shape.heads, shape.all_layers
    cross = CrossCache(heads.kv, heads.key_width, heads.value_width, fields.integer("max_source_positions"))
    caches = (
        CacheLayers(blocks.cache(heads, None), layers, heads.query),
        CacheLayers(cross, layers, heads.query),
    )
    tower = audio.whisper(fields, "encoder", ModuleKind.ENCODER)
    tower.matrix("embed_positions", fields.integer("max_source_positions"), shape.hidden)
    made = [*_frame(fields, shape), *_decoder(fields, shape), *tower.modules]
    read_as = architecture(fields, shape, made, caches)
    return replace(read_as, context_tokens=fields.integer("max_target_positions"))


def _shape(fields: Fields) -> Decoder:
    hidden, heads = fields.integer("d_model", "hidden_size"), fields.integer("decoder_attention_heads")
    if hidden % heads:
        raise fields.refuse("decoder_attention_heads", f"d_model {hidden} does not divide into {heads} heads.")
    return Decoder(
        layers=fields.integer("decoder_layers", most=MAX_LAYERS),
        hidden=hidden,
        heads=Heads(heads, heads, hidden // heads, hidden // heads),
        vocabulary=fields.integer("vocab_size"),
        tied=fields.flag("tie_word_embeddings", default=True),
    )


def _frame(fields: Fields, shape: Decoder) -> list[Module]:
    return [
        *blocks.embedding(shape.vocabulary, shape.hidden, tied=shape.tied),
        blocks.positions(fields.integer("max_target_positions"), shape.hidden),
        blocks.final_norm(shape.hidden, 2),
    ]


def _decoder(fields: Fields, shape: Decoder) -> list[Module]:
    """Keys have no bias, in either attention."""
    layers, hidden = shape.all_layers, shape.hidden
    biases = [m for m in blocks.attention_biases(shape.heads, layers) if m.name != "k_proj.bias"]
    biases.append(blocks.vector("o_proj.bias", hidden, layers, ModuleKind.BIAS))
    cross = [*blocks.attention(hidden, shape.heads, layers, ModuleKind.CROSS_ATTENTION), *biases]
    return [
        *blocks.attention(hidden, shape.heads, layers),
        *biases,
        *(replace(m, name=f"cross.{m.name}") for m in cross),
        *blocks.plain_mlp(hidden, fields.integer("decoder_ffn_dim"), layers, biased=True),
        blocks.vector("layer_norms", hidden, layers, per_layer=6),
    ]
