"""molmo2: an encoder read at several depths and pooled by attention, before a decoder with more words than its head."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module, ModuleKind
from service.domain.configs import dense
from service.domain.configs.base import decoder
from service.domain.configs.encoder_blocks import Tower, area, depth, patches
from service.domain.configs.fields import MAX_LAYERS, Fields, shown
from service.domain.configs.wrapping import Tying, compose, read_text

MODEL_TYPES = ("molmo2", "molmo2_text")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 151936,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 36864,
}
_HEADS: Mapping[str, Any] = {"hidden_size": 1152, "num_attention_heads": 16, "num_key_value_heads": 16, "head_dim": 72}
_VISION: Mapping[str, Any] = {
    **_HEADS,
    "intermediate_size": 4304,
    "num_hidden_layers": 25,
    "image_size": (378, 378),
    "patch_size": 14,
    "num_channels": 3,
}
_ADAPTER: Mapping[str, Any] = {**_HEADS, "intermediate_size": 18944, "vision_feature_layer": (24, 18)}
# Keys of the released files, whose encoder is cut behind the deepest layer that is read.
_RELEASED = {
    "image_default_input_size": "image_size",
    "image_patch_size": "patch_size",
    "vit_layers": "vision_feature_layer",
}


def read(fields: Fields) -> Architecture:
    """The added words stand in the table alone."""
    if fields.text("model_type") == "molmo2_text":
        return _read_text(fields.defaulting(_TEXT))
    text = read_text(fields, "molmo2_text", Tying())
    released = not fields.has("vision_config") and fields.has("vit_config")
    vision = _inner(fields, "vit_config" if released else "vision_config", _VISION)
    adapter = _inner(fields, "adapter_config", _ADAPTER)
    layers = depth(vision, "num_hidden_layers")
    read_at = [_layer(adapter, layer, layers) for layer in adapter.integers("vision_feature_layer", -MAX_LAYERS)]
    tower = _encoder(vision, max(read_at, default=0) + 1 if released else layers)
    return compose(fields, text, [*tower, *_adapter(adapter, len(read_at), text.hidden_size)])


def _inner(fields: Fields, name: str, defaults: Mapping[str, Any]) -> Fields:
    inner = fields.inner(name) or Fields({}, f"{fields.pointer}/{name}")
    return Fields({_RELEASED.get(key, key): value for key, value in inner.values.items()}, inner.pointer, defaults)


def _layer(fields: Fields, layer: int, count: int) -> int:
    if not -count <= layer < count:
        raise fields.refuse("vision_feature_layer", f"The encoder of {count} layers has no layer {layer}.")
    return layer % count


def _read_text(fields: Fields) -> Architecture:
    """Norms over each head, or over all heads at once where the file says olmo."""
    kind = fields.text("qk_norm_type") or "qwen3"
    if kind not in {"qwen3", "olmo"}:
        raise fields.refuse("qk_norm_type", f"Norms of queries and keys are qwen3's or olmo's, not {shown(kind)}.")
    biased = fields.flag("attention_bias", "qkv_bias", default=False)
    layer = dense.Layer(qkv_bias=biased, head_norms=kind == "qwen3", wide_norms=kind == "olmo")
    shape = decoder(fields)
    more = fields.integer("additional_vocab_size", default=128, least=0)
    architecture = dense.read(fields, layer, shape=shape)
    return replace(architecture, modules=tuple(_added(module, more) for module in architecture.modules))


def _added(module: Module, words: int) -> Module:
    return replace(module, rows=module.rows + words) if module.kind is ModuleKind.EMBEDDING else module


def _encoder(fields: Fields, layers: int) -> list[Module]:
    width = fields.integer("hidden_size")
    tower = Tower(ModuleKind.VISION, "vision_tower")
    tower.linear("patch_embedding", width, fields.integer("num_channels") * area(fields, "patch_size"))
    tower.matrix("position_embedding", fields.integer("image_num_pos", default=patches(fields)), width)
    _attention(fields, tower, width, layers)
    tower.mlp(width, fields.integer("intermediate_size"), layers)
    tower.norm("layer_norms", width, 2 * layers)
    return tower.modules


def _adapter(fields: Fields, depths: int, out: int) -> list[Module]:
    width, inner = fields.integer("hidden_size"), fields.integer("intermediate_size")
    tower = Tower(ModuleKind.VISION, "adapter")
    _attention(fields, tower, width * depths, 1)
    tower.linear("gate_up", 2 * inner, width, bias=fields.flag("mlp_bias", default=False))
    tower.linear("down", out, inner, bias=False)
    return tower.modules


def _attention(fields: Fields, tower: Tower, taken: int, layers: int) -> None:
    heads, kv, width = (fields.integer(n) for n in ("num_attention_heads", "num_key_value_heads", "head_dim"))
    biased = fields.flag("attention_bias", default=True)
    tower.linear("attention.qkv", (heads + 2 * kv) * width, taken, layers, bias=biased)
    tower.linear("attention.out", fields.integer("hidden_size"), heads * width, layers, bias=biased)
