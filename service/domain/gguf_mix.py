"""GGUF file types: which format each tensor of a file gets, by its role, its layer and the model's shape.

The rules are catalog data (`mix` of `catalog/dtypes/`), tried in order; what they look at is here. Source: llama.cpp
0c1e570, `src/llama-quant.cpp` (accounting 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.architecture import ModuleKind, Place

if TYPE_CHECKING:
    from service.domain.architecture import Architecture, Module

_ROLES: Final[Mapping[str, str]] = {
    "q_proj": "attn_q",
    "k_proj": "attn_k",
    "v_proj": "attn_v",
    "o_proj": "attn_output",
    "gate_proj": "ffn_gate",
    "up_proj": "ffn_up",
    "down_proj": "ffn_down",
}
_WITH_ROLES: Final = frozenset({ModuleKind.ATTENTION, ModuleKind.MLP, ModuleKind.EXPERT, ModuleKind.SHARED_EXPERT})
_TABLE: Final = "embed_tokens"
_ENDS: Final = {ModuleKind.HEAD: "output", ModuleKind.EMBEDDING: "token_embd"}
# Query, key and value are one tensor in the file, which the rules take for a value.
_FUSED: Final = frozenset(
    {"bloom", "chatglm", "falcon", "gpt2", "gpt_bigcode", "gpt_neox", "mpt", "persimmon", "phi3", "phimoe", "qwen"}
)
_SINGLE: Final = frozenset({ModuleKind.NORM, ModuleKind.BIAS, ModuleKind.ROUTER, ModuleKind.POSITION})
_TOWERS: Final = frozenset({ModuleKind.VISION, ModuleKind.AUDIO, ModuleKind.ENCODER, ModuleKind.PREDICTION})
_KEPT_NAMES: Final = ("conv", "A_log", "laurel.", "stream_")


class MixRule(NamedTuple):
    """The format of tensors in some roles; a condition that is None always holds."""

    tensors: frozenset[str]
    format: str
    experts: int | None
    min_queries_per_kv_head: int | None
    queries_per_kv_head: int | None
    model_layers: int | None
    first_layers: int | None
    first_share: Fraction | None
    more_bits: bool


@dataclass(frozen=True, slots=True, eq=False)
class Mix:
    """A file type: the format of every tensor that no rule is for, and the rules."""

    base: str
    rules: tuple[MixRule, ...]


class Shape(NamedTuple):
    """What conditions look at in a whole model."""

    layers: int
    experts: int
    queries_per_kv_head: int


@dataclass(frozen=True, slots=True)
class Tensors:
    """A module's tensors as rules see them: their roles, and by layer the place of each among so many of its kind."""

    roles: frozenset[str]
    places: Mapping[int, int]
    count: int


def read_mix(facts: Mapping[str, Any]) -> Mix:
    """Read the `mix` of a catalog entry; raises KeyError, ValueError or TypeError where it lacks what it needs."""
    return Mix(base=str(facts["base"]), rules=tuple(_rule(rule) for rule in facts["rules"]))


def _rule(facts: Mapping[str, Any]) -> MixRule:
    share = facts.get("first_share")
    return MixRule(
        tensors=frozenset(facts["tensors"]),
        format=str(facts["type"]),
        experts=facts.get("experts"),
        min_queries_per_kv_head=facts.get("min_queries_per_kv_head"),
        queries_per_kv_head=facts.get("queries_per_kv_head"),
        model_layers=facts.get("model_layers"),
        first_layers=facts.get("first_layers"),
        first_share=None if share is None else Fraction(share),
        more_bits=bool(facts.get("more_bits")),
    )


def shape_of(architecture: Architecture) -> Shape:
    """What rules look at; a model without attention has no heads to share."""
    shared = architecture.query_heads // architecture.kv_heads if architecture.kv_heads else 0
    return Shape(architecture.layers, architecture.experts[0], shared)


def layer_formats(mix: Mix, tensors: Tensors, shape: Shape) -> dict[str, set[int]]:
    """The layers by their tensors' format, before rows are looked at; in a file made without an importance matrix."""
    rules = [rule for rule in mix.rules if not rule.tensors.isdisjoint(tensors.roles) and _of_model(rule, shape)]
    layers: dict[str, set[int]] = {}
    for layer, index in tensors.places.items():
        matching = (rule.format for rule in rules if _of_layer(rule, index, tensors.count))
        layers.setdefault(next(matching, mix.base), set()).add(layer)
    return layers


def kept_format(module: Module) -> str | None:
    """The plain format of a module that no file type quantizes, None for one that is quantized.

    Encoders are files of their own, in 16 bits; vectors and small tensors stay in 32.
    """
    if module.kind in _TOWERS:
        return "fp16"
    small = module.kind in _SINGLE or module.columns == 1 or module.name.startswith(_KEPT_NAMES)
    return "fp32" if small else None


def tensors_of(architecture: Architecture, module: Module) -> Tensors:
    """The tensors of a quantized module; one outside the layers is at 0."""
    if module.place is not Place.LAYERS:
        multiplied = module.name == _TABLE and architecture.tied
        role = "output" if multiplied else _ENDS.get(module.kind, "")
        return Tensors(frozenset({role}), {0: 0}, 1)
    roles = _roles(module, architecture.model_type)
    if "attn_v" in roles:
        # Layers without a value tensor do not count.
        owners = _value_layers(architecture)
        held = frozenset(module.layers)
        return Tensors(roles, {layer: index for index, layer in enumerate(owners) if layer in held}, len(owners))
    return Tensors(roles, {layer: layer for layer in module.layers}, architecture.layers)


def _roles(module: Module, model_type: str) -> frozenset[str]:
    role = _ROLES.get(module.name.rpartition(".")[2]) if module.kind in _WITH_ROLES else None
    if role is None:
        return frozenset()
    if role in {"attn_q", "attn_k"} and model_type in _FUSED:
        role = "attn_v"
    return frozenset({role, f"{role}_exps"} if module.kind is ModuleKind.EXPERT else {role})


def _value_layers(architecture: Architecture) -> tuple[int, ...]:
    owners = {layer for m in architecture.modules if m.name == "v_proj" for layer in m.layers}
    return tuple(sorted(owners))


def _of_model(rule: MixRule, shape: Shape) -> bool:
    return (
        (rule.experts is None or rule.experts == shape.experts)
        and (rule.min_queries_per_kv_head is None or shape.queries_per_kv_head >= rule.min_queries_per_kv_head)
        and (rule.queries_per_kv_head is None or shape.queries_per_kv_head == rule.queries_per_kv_head)
        and (rule.model_layers is None or shape.layers == rule.model_layers)
    )


def _of_layer(rule: MixRule, index: int, count: int) -> bool:
    return (
        (rule.first_layers is None or index < rule.first_layers)
        and (rule.first_share is None or index < int(count * rule.first_share))
        and (not rule.more_bits or _more_bits(index, count))
    )


def _more_bits(index: int, count: int) -> bool:
    """llama.cpp's `use_more_bits`: both ends of the model, and every third layer between."""
    eighth = count // 8
    return index < eighth or index >= 7 * count // 8 or (index - eighth) % 3 == 2  # noqa: PLR2004  # as its source
