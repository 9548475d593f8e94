"""ernie4_5_vl_moe and ernie4_5_moe_vl (ERNIE 4.5 VL): experts for words beside experts for pictures, and an encoder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import blocks, dense, moe
from service.domain.configs.base import MAX_EXPERTS, Decoder, architecture, decoder, frame
from service.domain.configs.encoder_blocks import Tower, area, depth
from service.domain.configs.fields import Fields
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("ernie4_5_vl_moe", "ernie4_5_moe_vl", "ernie4_5_vl_moe_text")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 103424,
    "hidden_size": 2560,
    "intermediate_size": 12288,
    "num_hidden_layers": 28,
    "num_attention_heads": 20,
    "num_key_value_heads": 4,
    "max_position_embeddings": 131072,
    "tie_word_embeddings": True,
    "moe_intermediate_size": (1536, 512),
    "moe_num_experts": 64,
    "moe_num_shared_experts": 2,
    "moe_k": 6,
}
_VISION: Mapping[str, Any] = {
    "depth": 32,
    "hidden_size": 1280,
    "in_channels": 3,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_merge_size": 2,
}
_RATIO, _MOST_MERGED = 4.0, 64
_NO_SHARED = 0


def read(fields: Fields) -> Architecture:
    """The published file states the decoder's sizes beside the encoder's config."""
    kind = "ernie4_5_vl_moe_text"
    if fields.text("model_type") == kind:
        return _read_text(fields.defaulting(_TEXT))
    text = read_text(fields, kind, Tying(silent=True), renamed=dict.fromkeys(MODEL_TYPES, kind))

    def encode(inner: Fields) -> list[Module]:
        return _encoder(inner.defaulting(_VISION), text.hidden_size)

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _read_text(fields: Fields) -> Architecture:
    """A word visits its own experts alone; the shared ones are as wide as those for words."""
    shape, biased = decoder(fields, tied=True), fields.flag("use_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, out_bias=biased, mlp_bias=biased)
    sparse = _sparse(fields, shape)
    plain = tuple(sorted(set(shape.all_layers) - set(sparse)))
    made = [
        *frame(shape),
        *dense.attention(shape, layer, shape.all_layers),
        *_experts(fields, shape, sparse),
        *(dense.mlp(shape.hidden, fields.integer("intermediate_size"), layer, plain) if plain else ()),
    ]
    return architecture(fields, shape, made, blocks.caches(shape.heads, (None,) * shape.layers))


def _sparse(fields: Fields, shape: Decoder) -> tuple[int, ...]:
    """All layers behind the first, where the file does not list them; refuses those that differ by kind of token."""
    words = fields.choices("mlp_layer_types", ("dense", "sparse"), shape.layers)
    if words:
        return tuple(layer for layer, word in enumerate(words) if word == "sparse")
    first, _ = _pair(fields, "moe_layer_start_index", 1)
    last = shape.layers - 1
    for each in _numbers(fields, "moe_layer_end_index", last, least=-1):
        if each != -1 and each < last:
            raise fields.refuse("moe_layer_end_index", "Only experts up to the last layer are known.")
    return shape.all_layers[first:]


def _pair(fields: Fields, name: str, unsaid: int) -> tuple[int, int]:
    """What holds for words and for pictures, of which only equal ones are known."""
    numbers = _numbers(fields, name, unsaid)
    if len(set(numbers)) != 1:
        raise fields.refuse(name, f"Only the same {name} for words and for pictures is known.")
    return numbers[0], numbers[-1]


def _numbers(fields: Fields, name: str, unsaid: int, *, least: int = 0) -> tuple[int, ...]:
    """One number for both kinds of tokens, or two."""
    if not isinstance(fields.get(name), list | tuple):
        return (fields.integer(name, default=unsaid, least=least),) * 2
    numbers = fields.integers(name, least)
    if len(numbers) != 2:  # noqa: PLR2004  # words and pictures
        raise fields.refuse(name, f"{name} must be one number or two.")
    return numbers


def _experts(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    count, _ = _pair(fields, "moe_num_experts", 64)
    active = fields.integer("moe_k")
    if not active <= count <= MAX_EXPERTS:
        raise fields.refuse("moe_k", f"A token cannot visit {active} of {count} experts.")
    words, pictures = _numbers(fields, "moe_intermediate_size", 1536, least=1)
    shared = fields.integer("moe_num_shared_experts", least=0, most=MAX_EXPERTS) * words
    text = moe.Experts(count=count, active=active, width=words, shared=shared, router_bias=True)
    seen = moe.modules(shape.hidden, replace(text, active=0, width=pictures, shared=_NO_SHARED), layers)
    return [*moe.modules(shape.hidden, text, layers), *(replace(m, name=f"vision_{m.name}") for m in seen)]


def _encoder(fields: Fields, out: int) -> list[Module]:
    """Patches are joined in space and in time, each by an MLP of its own with a norm behind it."""
    width, layers = fields.integer("hidden_size"), depth(fields, "depth", "num_hidden_layers")
    inner = fields.optional("intermediate_size") or max(1, int(width * fields.number("mlp_ratio", _RATIO)))
    joined = width * fields.integer("spatial_merge_size", most=_MOST_MERGED) ** 2
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embed", width, fields.integer("in_channels") * area(fields, "patch_size"), bias=False)
    tower.attention(width, layers)
    tower.mlp(width, inner, layers)
    tower.norm("layer_norms", width, 2 * layers + 1)
    tower.name = "resampler"
    tower.linear("spatial.fc1", joined, joined)
    tower.linear("temporal.fc1", joined, joined * fields.integer("temporal_merge_size", most=_MOST_MERGED))
    tower.linear("fc2", joined, joined, 2)
    tower.norm("norms", joined, 2)
    tower.linear("mlp", out, joined)
    tower.norm("norm_behind", out, bias=False)
    return tower.modules
