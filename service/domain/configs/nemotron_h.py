"""nemotron_h (Nemotron-H, Nano and Super): one mixer, attention, MLP or set of experts a layer, by a pattern."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.domain.architecture import Architecture, Module
from service.domain.cache.recurrent import RecurrentCache
from service.domain.configs import blocks, layer_kinds, moe, narrow_experts, prediction_blocks
from service.domain.configs.base import Decoder, architecture, decoder, frame
from service.domain.configs.fields import Fields
from service.domain.configs.jamba import mixed_caches
from service.domain.configs.recurrent_blocks import FOUR_BYTES, Mamba2

MODEL_TYPES = ("nemotron_h",)
DEFAULTS: Mapping[str, Any] = {
    "vocab_size": 131072,
    "hidden_size": 4096,
    "layers_block_type": ("linear_attention", "moe", "full_attention", "mlp"),
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "max_position_embeddings": 4096,
    "intermediate_size": 21504,
    "ssm_state_size": 128,
    "mamba_num_heads": 128,
    "mamba_head_dim": 64,
    "n_groups": 8,
    "conv_kernel": 4,
    "n_routed_experts": 8,
    "moe_intermediate_size": 7688,
    "moe_shared_expert_intermediate_size": 7688,
    "num_experts_per_tok": 2,
    "mamba_ssm_cache_dtype": "float32",
}
_MLP, _EXPERTS = "mlp", "moe"
_LETTERS = {"M": layer_kinds.LINEAR, "E": _EXPERTS, "*": layer_kinds.FULL, "-": _MLP}
_STATE_BYTES = {"float32": FOUR_BYTES, "bfloat16": 2, "float16": 2, "auto": 2}


def read(fields: Fields) -> Architecture:
    """Every layer is one thing with one norm; the state is kept in 32 bits unless the file says otherwise."""
    fields = fields.defaulting(DEFAULTS)
    if fields.optional("sliding_window") is not None:
        raise fields.refuse("sliding_window", "This family has no rule for a sliding window.")
    kinds = _kinds(fields)
    fields = Fields({**fields.values, "num_hidden_layers": len(kinds)}, fields.pointer, DEFAULTS)
    fields.get("layers_block_type", "layer_types", "hybrid_override_pattern")
    shape, mixer = decoder(fields)._replace(tied=False), _mixer(fields)  # its code ties nothing
    attending, mixing = layer_kinds.of(kinds, layer_kinds.FULL), layer_kinds.of(kinds, layer_kinds.LINEAR)
    made = [
        *frame(shape, norms=1),
        *(blocks.attention(shape.hidden, shape.heads, attending) if attending else ()),
        *mixer.modules(shape.hidden, mixing),
        *_mlp(fields, shape, layer_kinds.of(kinds, _MLP)),
        *narrow_experts.ungated(fields, shape.hidden, layer_kinds.of(kinds, _EXPERTS)),
        *_predicted(fields, shape),
    ]
    return architecture(fields, shape, made, mixed_caches(shape, attending, _state(fields, mixer), mixing))


def _kinds(fields: Fields) -> tuple[str, ...]:
    """What each layer is; the number of layers follows from the pattern, whatever else the file says."""
    names = ("layers_block_type", "layer_types")
    if fields.has("hybrid_override_pattern") and not fields.has(*names):
        count = layer_kinds.length(fields, "hybrid_override_pattern")
        pattern = fields.text("hybrid_override_pattern") or ""
        unknown = sorted(set(pattern) - set(_LETTERS))
        if count is None or unknown:
            raise fields.refuse("hybrid_override_pattern", "hybrid_override_pattern must consist of M, E, * and -.")
        return tuple(_LETTERS[letter] for letter in pattern)
    count = layer_kinds.length(fields, *names)
    words = layer_kinds.listed(fields, names, tuple(_LETTERS.values()), count or 1)
    return words or ()


def _mixer(fields: Fields) -> Mamba2:
    return Mamba2(
        heads=fields.integer("mamba_num_heads"),
        head_width=fields.integer("mamba_head_dim"),
        groups=fields.integer("mamba_n_groups", "n_groups"),
        state=fields.integer("ssm_state_size"),
        kernel=fields.integer("mamba_d_conv", "conv_kernel"),
        conv_bias=fields.flag("mamba_conv_bias", default=fields.flag("use_conv_bias", default=True)),
        bias=fields.flag("use_bias", default=False),
    )


def _mlp(fields: Fields, shape: Decoder, layers: tuple[int, ...]) -> list[Module]:
    biased = fields.flag("mlp_bias", default=False)
    return blocks.plain_mlp(shape.hidden, fields.integer("intermediate_size"), layers, biased=biased) if layers else []


def _predicted(fields: Fields, shape: Decoder) -> list[Module]:
    """A layer of attention and one of experts, with their fusion; checkpoints repeat neither table nor head."""
    layers = moe.predicted_layers(fields, shape)
    if not layers:
        return []
    attention = blocks.attention(shape.hidden, shape.heads, layers)
    fusion = prediction_blocks.fusion(shape.hidden, layers)
    return blocks.prediction([*attention, *narrow_experts.ungated(fields, shape.hidden, layers), *fusion])


def _state(fields: Fields, mixer: Mamba2) -> RecurrentCache:
    """Whether the file names its type matters to engines that have a default of their own."""
    named = fields.has("mamba_ssm_cache_dtype") and fields.text("mamba_ssm_cache_dtype") != "auto"
    return replace(mixer.cache(_state_bytes(fields)), state_type_named=named)


def _state_bytes(fields: Fields) -> int:
    name = (fields.text("mamba_ssm_cache_dtype") or "float32").removeprefix("torch.")
    if name not in _STATE_BYTES:
        raise fields.refuse("mamba_ssm_cache_dtype", f"mamba_ssm_cache_dtype must be one of {', '.join(_STATE_BYTES)}.")
    return _STATE_BYTES[name]
