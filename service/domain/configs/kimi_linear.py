"""kimi_linear and the text part of kimi_k3: Kimi delta attention, latent attention in every fourth layer, experts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.domain.architecture import Architecture, CacheLayers, Module, ModuleKind, Place, Shard
from service.domain.configs import blocks, latent_blocks, layer_kinds, narrow_experts
from service.domain.configs.base import Decoder, architecture, frame, split
from service.domain.configs.fields import Fields
from service.domain.configs.latent_decoders import latent_decoder, sparse_layers
from service.domain.configs.recurrent_blocks import KimiDelta

MODEL_TYPES = ("kimi_linear",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 163840,
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "moe_intermediate_size": 1024,
    "num_hidden_layers": 27,
    "num_attention_heads": 32,
    "first_k_dense_replace": 1,
    "num_shared_experts": 1,
    "num_experts": 256,
    "num_experts_per_token": 8,
    "kv_lora_rank": 512,
    "q_lora_rank": None,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "model_max_length": 1048576,
    "linear_head_dim": 128,
    "linear_num_heads": 32,
    "linear_conv_kernel_dim": 4,
}
_WHOLE = Shard.REPLICATED
_KIND = ModuleKind


def read(fields: Fields) -> Architecture:
    """A state in the layers with delta attention, a vector a token in the others.

    K3's options stand in the same file: an output gate of full rank, a gate behind latent attention, residuals mixed
    over blocks of layers, experts in a narrower space.
    """
    fields = fields.defaulting(DEFAULTS)
    shape, attention = latent_decoder(fields)
    shape = shape._replace(tied=False)  # its code ties nothing, whatever the file says
    attending, mixing = _kinds(fields, shape)
    mixer = _mixer(fields)
    made = [
        *frame(shape),
        *latent_blocks.attention(shape.hidden, attention, attending),
        *_output_gate(fields, shape, attending),
        *mixer.modules(shape.hidden, mixing),
        *_mlps(fields, shape),
        *_residuals(fields, shape),
    ]
    caches = latent_blocks.caches(attention, attending)
    if mixing:
        caches += (CacheLayers(mixer.cache(), mixing, 0),)
    return architecture(fields, shape, made, caches)


def _kinds(fields: Fields, shape: Decoder) -> tuple[tuple[int, ...], tuple[int, ...]]:
    known = (layer_kinds.LINEAR, layer_kinds.FULL)
    words = layer_kinds.listed(fields, ("layer_types",), known, shape.layers)
    if words is not None:
        return split(shape.all_layers, lambda layer: words[layer] == layer_kinds.FULL)
    linear = fields.inner("linear_attn_config")
    if linear is None or not linear.has("full_attn_layers"):
        return split(shape.all_layers, lambda layer: layer > 0 and layer % 4 == 0)
    # Counted from 1 in the published file.
    full = {layer - 1 for layer in linear.integers("full_attn_layers", least=1, most=shape.layers)}
    states = {layer - 1 for layer in linear.integers("kda_layers", least=1, most=shape.layers)}
    if states and (states & full or len(states | full) != shape.layers):
        detail = f"kda_layers and full_attn_layers must share {shape.layers} layers between them."
        raise linear.refuse("kda_layers", detail)
    return split(shape.all_layers, full.__contains__)


def _mixer(fields: Fields) -> KimiDelta:
    linear = fields.inner("linear_attn_config") or Fields({}, fields.pointer)
    full_gate = linear.flag("use_full_rank_gate", default=False)
    heads = linear.optional("num_heads") or fields.integer("linear_num_heads")
    width = linear.optional("head_dim") or fields.integer("linear_head_dim")
    kernel = linear.optional("short_conv_kernel_size") or fields.integer("linear_conv_kernel_dim")
    # K3's checkpoint stores as many decays as a head is wide.
    return KimiDelta(heads, width, kernel, width if full_gate else heads, full_gate)


def _output_gate(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    if not layers or not fields.flag("mla_use_output_gate", default=False):
        return []
    heads = shape.heads
    rows = heads.query * heads.value_width
    return [blocks.matrix("g_proj", _KIND.ATTENTION, rows, shape.hidden, layers, Shard.ROWS, heads.query)]


def _residuals(fields: Fields, shape: Decoder) -> list[Module]:
    """A norm and a score of the hidden size, twice a layer and once behind the last."""
    if fields.optional("attn_res_block_size") is None:
        return []
    last = blocks.edge_vector("residual_vectors", shape.hidden, Place.LAST, count=2)
    return [blocks.vector("residual_vectors", shape.hidden, shape.all_layers, per_layer=4), last]


def _mlps(fields: Fields, shape: Decoder) -> list[Module]:
    sparse, plain = split(shape.all_layers, set(sparse_layers(fields, shape)).__contains__)
    made = narrow_experts.modules(fields, shape.hidden, sparse) if sparse else []
    return made + blocks.gated_mlp(shape.hidden, fields.integer("intermediate_size"), plain) if plain else made
