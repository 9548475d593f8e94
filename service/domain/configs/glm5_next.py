"""glm5_next (GLM-5.3 Flash): Kimi delta attention, latents that an indexer of pooled keys picks from, streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Shard
from service.domain.cache.recurrent import Mixer, RecurrentCache
from service.domain.configs import blocks, deepseek_v4_parts, latent_blocks, layer_kinds
from service.domain.configs.base import Decoder, architecture, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.glm_ocr import picture_encoder
from service.domain.configs.latent_blocks import Indexer, Latent
from service.domain.configs.latent_decoders import latent_decoder, mlps, predicted
from service.domain.configs.recurrent_blocks import KimiDelta
from service.domain.configs.wrapping import Tying, compose, encoder, read_text

MODEL_TYPES = ("glm5_next", "glm5_next_text")
_TEXT: Mapping[str, Any] = {
    "vocab_size": 154880,
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "moe_intermediate_size": 2048,
    "num_hidden_layers": 45,
    "num_attention_heads": 64,
    "n_shared_experts": 1,
    "n_routed_experts": 288,
    "num_experts_per_tok": 8,
    "first_k_dense_replace": 3,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 256,
    "qk_rope_head_dim": 0,
    "v_head_dim": 256,
    "max_position_embeddings": 1048576,
    "index_n_heads": 32,
    "index_head_dim": 128,
    "index_topk": 2048,
    "index_kpool": 16,
    "linear_num_heads": 64,
    "linear_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "hc_mult": 4,
}
_VISION: Mapping[str, Any] = {"projection_intermediate_size": 10240}
_KNOWN = (layer_kinds.LINEAR, layer_kinds.FULL, layer_kinds.INDEXED)
_EVERY = 4


def read(fields: Fields) -> Architecture:
    """The text fields of a flat file stand beside its model_type."""
    if fields.text("model_type") == "glm5_next_text":
        return _read_text(fields.defaulting(_TEXT))
    text = read_text(fields, "glm5_next_text", Tying(), renamed={"glm5_next": "glm5_next_text"})

    def encode(inner: Fields) -> list[Module]:
        return picture_encoder(Fields({**_VISION, **inner.values}, inner.pointer))

    modules, notes = encoder(fields, "vision_config", encode)
    return compose(fields, text, modules, *notes)


def _read_text(fields: Fields) -> Architecture:
    """A prediction layer attends to latents and has a single stream."""
    shape, attention = latent_decoder(fields)
    attending, mixing = _kinds(fields, shape)
    index, pool, mixer = latent_blocks.indexer(fields), fields.integer("index_kpool", least=2), _mixer(fields)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, attending),
        *_indexers(fields, shape, index, attending),
        *mixer.modules(shape.hidden, mixing),
        *mlps(fields, shape),
        *deepseek_v4_parts.streams(fields, shape, shape.all_layers),
    ]
    extra = tuple(_indexers(fields, shape, index, (shape.layers,)))
    made += predicted(fields, shape, attention, tables=False, extra=extra)
    caches = _caches(attention, index, pool, attending)
    caches += (CacheLayers(mixer.cache(), mixing, 0),) if mixing else ()
    return architecture(fields, shape, made, caches)


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The layers with latents, of which each has an indexer of its own, and those with states."""
    fields.choices("indexer_types", ("full",), shape.layers)
    for name in ("index_topk_pattern", "index_topk_freq"):
        if fields.get(name) not in (None, 1):
            raise fields.refuse(name, f"Layers that share what another picked ({name}) are not known here.")
    words = layer_kinds.listed(fields, ("layer_types",), _KNOWN, shape.layers)
    if words is None:
        return split(shape.all_layers, lambda layer: layer % _EVERY == _EVERY - 1)
    return split(shape.all_layers, lambda layer: words[layer] != layer_kinds.LINEAR)


def _mixer(fields: Fields) -> KimiDelta:
    linear = fields.inner("linear_attn_config") or Fields({}, fields.pointer)
    heads = linear.optional("num_heads") or fields.integer("linear_num_heads")
    width = linear.optional("head_dim") or fields.integer("linear_head_dim")
    kernel = linear.optional("short_conv_kernel_size") or fields.integer("linear_conv_kernel_dim")
    return KimiDelta(heads, width, kernel, heads)


def _indexers(fields: Fields, shape: Decoder, index: Indexer, layers: tuple[int, ...]) -> list[Module]:
    """An indexer with a weight for each place of a pool, and a gate for each of its elements."""
    if not layers:
        return []
    kind, whole = ModuleKind.INDEXER, Shard.REPLICATED
    return [
        *latent_blocks.index_modules(shape.hidden, fields.integer("q_lora_rank"), index, layers),
        blocks.matrix(
            "indexer.position_bias", ModuleKind.NORM, fields.integer("index_kpool"), index.width, layers, whole
        ),
        blocks.matrix("indexer.gate_proj", kind, index.width, shape.hidden, layers, whole),
    ]


def _caches(attention: Latent, index: Indexer, pool: int, layers: tuple[int, ...]) -> tuple[CacheLayers, ...]:
    """A vector a token, one key for each pool, and keys and gates of the pool that is not full, in 16 bits.

    vLLM 0.33.0, `models/glm5next/common/attention.py`, Glm5NextIndexerCache and Glm5NextTailCache.
    """
    if not layers:
        return ()
    tail = RecurrentCache(Mixer.COMPRESSOR, 1, pool, 2 * index.width, 0, 0)
    return (
        *latent_blocks.caches(attention, layers, index.picked_tokens),
        *latent_blocks.index_caches(index, layers, tokens_per_row=pool),
        CacheLayers(tail, layers, 0),
    )
