"""gemma3n: several residual streams, an embedding for each layer, and last layers that share earlier caches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import blocks, conformer, gemma_blocks, layer_kinds, shared_layers
from service.domain.configs.base import Decoder, architecture, decoder, frame
from service.domain.configs.encoder_blocks import Tower
from service.domain.configs.fields import Fields, shown
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("gemma3n", "gemma3n_text")
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 262400,
    "hidden_size": 2048,
    "intermediate_size": 16384,
    "num_hidden_layers": 35,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "max_position_embeddings": 32768,
    "tie_word_embeddings": True,
    "sliding_window": 512,
    "vocab_size_per_layer_input": 262144,
    "hidden_size_per_layer_input": 256,
    "altup_num_inputs": 4,
    "num_kv_shared_layers": 15,
    "laurel_rank": 64,
}
_PICTURES: Mapping[str, Any] = {"architecture": "mobilenetv5_300m_enc", "hidden_size": 2048, "vocab_size": 128}
# Parameters of the timm model of that name without its classifier (counted from timm 1.0.31's own code).
_MOBILENETS = {"mobilenetv5_300m_enc": 294_126_912}
_EVERY = 5


def read(fields: Fields) -> Architecture:
    """Read the decoder, and the encoders of a file that nests it."""
    return _text(fields) if fields.text("model_type") == "gemma3n_text" else _wrapper(fields)


def _text(fields: Fields) -> Architecture:
    fields = fields.defaulting(DEFAULTS)
    shape = decoder(fields, tied=True)
    kinds = _kinds(fields, shape)
    first_shared = shared_layers.owners(fields, kinds)
    biased = fields.flag("attention_bias", default=False)
    made = [
        *frame(shape, norms=4),
        *shared_layers.attention(shape.hidden, shape.heads, shape.all_layers, first_shared, biased=biased),
        *_mlps(fields, shape),
        *gemma_blocks.streams(fields, shape),
        *gemma_blocks.layer_inputs(fields, shape),
    ]
    window = fields.integer("sliding_window")
    specs = {
        layer_kinds.SLIDING: blocks.cache(shape.heads, window),
        layer_kinds.FULL: blocks.cache(shape.heads, None),
    }
    caches = shared_layers.caches(kinds, first_shared, specs, shape.heads.query)
    return architecture(fields, shape, made, caches)


def _kinds(fields: Fields, shape: Decoder) -> tuple[str, ...]:
    known = (layer_kinds.FULL, layer_kinds.SLIDING)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    return words or tuple(known[(layer + 1) % _EVERY != 0] for layer in shape.all_layers)


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    """One width, or one for each layer."""
    if not isinstance(fields.get("intermediate_size"), list | tuple):
        return blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), shape.all_layers)
    widths = fields.per_layer("intermediate_size", shape.layers, least=1) or ()
    made: list[Module] = []
    for width in dict.fromkeys(widths):
        layers = tuple(layer for layer, each in enumerate(widths) if each == width)
        made += blocks.gated_mlp(shape.hidden, width, layers)
    return made


def _wrapper(fields: Fields) -> Architecture:
    text = read_text(fields, "gemma3n_text", Tying(silent=True))

    def see(inner: Fields) -> list[Module]:
        return _pictures(inner.defaulting(_PICTURES), text.hidden_size)

    def hear(inner: Fields) -> list[Module]:
        tower, width, rows = conformer.third(inner)
        return [*tower.modules, *_embedder(ModuleKind.AUDIO, "embed_audio", width, rows, text.hidden_size)]

    pictures, notes = encoder(fields, "vision_config", see)
    sounds, more = encoder(fields, "audio_config", hear)
    return compose(fields, text, [*pictures, *sounds], *notes, *more)


def _pictures(fields: Fields, hidden: int) -> list[Module]:
    name = fields.text("architecture") or ""
    size = _MOBILENETS.get(name)
    if size is None:
        raise fields.refuse("architecture", f"The encoder {shown(name)} is not known.")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.vector(name, size)
    width, rows = fields.integer("hidden_size"), fields.integer("vocab_size")
    return [*tower.modules, *_embedder(ModuleKind.VISION, "embed_vision", width, rows, hidden)]


def _embedder(kind: ModuleKind, name: str, width: int, rows: int, hidden: int) -> list[Module]:
    """Rows for an encoder's own tokens, two norms and a projection to the decoder."""
    tower = Tower(kind, name)
    tower.matrix("embedding", rows, width)
    tower.norm("norms", width, 2, bias=False)
    tower.linear("projection", hidden, width, bias=False)
    return tower.modules
