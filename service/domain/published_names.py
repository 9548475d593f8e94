"""What checkpoints call the modules of the normal form: the names that a config's module lists are written in.

Families spell the same module in a few ways; those of a module are tried one after the other. Only what decides a
number format is here: matrices of the decoder's layers and of the head.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from service.domain.architecture import ModuleKind

if TYPE_CHECKING:
    from service.domain.architecture import Module

_ATTENTION: Final = ("self_attn", "attention", "attn", "self_attention")
_HOLDERS: Final[Mapping[ModuleKind, tuple[str, ...]]] = {
    ModuleKind.ATTENTION: _ATTENTION,
    ModuleKind.CROSS_ATTENTION: ("cross_attn", "encoder_attn"),
    ModuleKind.INDEXER: ("self_attn",),
    ModuleKind.MIXER: ("linear_attn", "mamba", "mixer", "conv"),
    ModuleKind.MLP: ("mlp", "feed_forward", "ffn"),
    ModuleKind.EXPERT: ("mlp", "block_sparse_moe", "feed_forward", "moe"),
    ModuleKind.SHARED_EXPERT: ("mlp", "feed_forward"),
}
_OWN_HOLDERS: Final[Mapping[str, Mapping[ModuleKind, tuple[str, ...]]]] = {
    # Experts stand beside the dense MLP and not in it.
    "gemma4": {ModuleKind.EXPERT: ("", "moe")},
    "gemma4_text": {ModuleKind.EXPERT: ("", "moe")},
    # Linear attention goes by the name of attention.
    "kimi_linear": {ModuleKind.MIXER: ("self_attn",)},
    "kimi_k3": {ModuleKind.MIXER: ("self_attn",)},
    "glm5_next": {ModuleKind.MIXER: ("self_attn",)},
    "glm5_next_text": {ModuleKind.MIXER: ("self_attn",)},
    "bailing_hybrid": {ModuleKind.MIXER: ("attention", "self_attn")},
    "minimax": {ModuleKind.MIXER: ("self_attn",)},
    # A layer is one part, whatever it does.
    "nemotron_h": dict.fromkeys(_HOLDERS, ("mixer",)),
}
_SHARED = ("shared_expert", "shared_experts")
_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "q_proj": ("q_proj", "qkv_proj"),
    "k_proj": ("k_proj", "qkv_proj"),
    "v_proj": ("v_proj", "qkv_proj"),
    "kv_a_proj": ("kv_a_proj_with_mqa",),
    "gate_proj": ("gate_proj", "gate_up_proj", "w1"),
    "up_proj": ("up_proj", "gate_up_proj", "w3"),
    "down_proj": ("down_proj", "w2"),
    "in_proj_qk": ("in_proj_qkvz", "in_proj_qkv"),
    "in_proj_vz": ("in_proj_qkvz", "in_proj_z", "in_proj_qkv"),
    "in_proj_ba": ("in_proj_ba", "in_proj_b", "in_proj_a"),
    "in_proj.groups": ("in_proj",),
    "in_proj.dt": ("in_proj",),
    "q_gate": ("q_proj",),
}
LINEAR: Final = frozenset(_HOLDERS)
"""The kinds whose matrices a format is for where a config says `all linear modules`."""
_CONVOLUTION = "conv"
_NO_LAYER = "A_log"


def is_linear(module: Module) -> bool:
    """Whether the module is a matrix that quantization schemes count among the linear ones."""
    named = module.name.startswith(_CONVOLUTION) or module.name == _NO_LAYER
    return module.kind in LINEAR and module.columns > 1 and not named


@lru_cache(maxsize=1024)
def names_in_layer(name: str, kind: ModuleKind, model_type: str) -> tuple[str, ...]:
    """Names of a layer's module below the layer, as `self_attn.q_proj`; one of many experts is the first."""
    holders = _OWN_HOLDERS.get(model_type, {}).get(kind) or _HOLDERS.get(kind, ())
    between = _between(name, kind)
    parts = _parts(name, kind)
    return tuple(".".join(filter(None, (h, b, part))) for h in holders for b in between for part in parts)


def _parts(name: str, kind: ModuleKind) -> tuple[str, ...]:
    last = name.rpartition(".")[2]
    return (_PARTS.get(name) if kind is ModuleKind.MIXER else None) or _PARTS.get(last, (last,))


def _between(name: str, kind: ModuleKind) -> tuple[str, ...]:
    """What stands between the layer's part and the module itself."""
    if kind is ModuleKind.EXPERT:
        return ("experts.0",)
    if kind is ModuleKind.SHARED_EXPERT:
        return _SHARED
    return ("",) if kind is ModuleKind.MIXER else (name.rpartition(".")[0],)
