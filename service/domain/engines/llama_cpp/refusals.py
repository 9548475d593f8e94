"""Settings that llama.cpp has no meaning for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.cache.latent import LatentCache
from service.domain.engines.llama_cpp.layers import single
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from service.domain.engines.llama_cpp.rules import Rules
    from service.domain.engines.ranks.setting import Setting

FUSED = {"on": True, "off": False}
"""What `attention_backend` may say: whether attention is fused (--flash-attn)."""


def check(setting: Setting, rules: Rules) -> None:
    """Raise QuoteError naming the field that cannot be."""
    _check_caches(setting, rules)
    _check_weights(setting, rules)
    _check_attention(setting)
    _check_cache_type(setting, rules)
    _check_split(setting)
    if setting.asked.get("cpu_expert_layers") and not setting.scenario.model.architecture.experts[0]:
        detail = f"{setting.scenario.model.name} has no routed experts to leave on the host."
        raise ValidationError(Fault("/cpu_expert_layers", detail))


def fused(setting: Setting, rules: Rules) -> bool:
    """Whether attention is fused: as asked, or as the build does."""
    asked = setting.asked.get("attention_backend")
    return rules.compute.fused if asked is None or asked == "auto" else FUSED[asked]


def _check_caches(setting: Setting, rules: Rules) -> None:
    architecture = setting.scenario.model.architecture
    specs = [owners.spec for owners in architecture.caches]
    described = architecture.model_type in rules.latent.indexed
    compressed = any(isinstance(spec, LatentCache) and spec.tokens_per_row > 1 for spec in specs)
    unknown = {CacheKind.CROSS} if described else {CacheKind.CROSS, CacheKind.INDEXER}
    odd = [spec.kind for spec in specs if spec.kind in unknown]
    if compressed or odd:
        what = "compressed attention" if compressed else f"{odd[0]} cache"
        detail = f"How this build of llama.cpp keeps the {what} of {setting.scenario.model.name} is not described yet."
        raise NotSupported(Fault("/engine", detail, ("none",)))
    if all(spec.kind is CacheKind.RECURRENT for spec in specs):
        detail = f"llama.cpp counts cells of attention, and no layer of {setting.scenario.model.name} attends."
        raise NotSupported(Fault("/engine", detail, ("none", "vllm")))


def _check_weights(setting: Setting, rules: Rules) -> None:
    name, known = setting.scenario.weights.name, rules.constants.file_types
    if name not in known:
        detail = f"llama.cpp loads GGUF files, and none is of type {name}."
        raise NotSupported(Fault("/weight_dtype", detail, nearest(name, known)))


def _check_attention(setting: Setting) -> None:
    asked = setting.asked.get("attention_backend")
    if asked is not None and asked != "auto" and asked not in FUSED:
        detail = f"attention_backend is on, off or auto with llama.cpp (--flash-attn), not {asked[:40]!r}."
        raise NotSupported(Fault("/attention_backend", detail, ("on", "off", "auto")))


def _check_cache_type(setting: Setting, rules: Rules) -> None:
    names, constants = setting.scenario.cache.name.split("/"), rules.constants
    for name in names:
        if name not in constants.cache_types:
            detail = f"llama.cpp has no cache of type {name}."
            raise NotSupported(Fault("/kv_dtype", detail, nearest(name, constants.cache_types)))
    keys, values = names[0], names[-1]
    if keys != values and _shares_vectors(setting, rules):
        detail = "Values of latent attention are kept in its keys, so they have the same type."
        raise ValidationError(Fault("/kv_dtype", detail, (keys,)))
    if values not in constants.wide_cache_types and not fused(setting, rules):
        detail = f"Values are kept in {values} only with fused attention: set attention_backend to on."
        raise ValidationError(Fault("/kv_dtype", detail))


def _shares_vectors(setting: Setting, rules: Rules) -> bool:
    caches = setting.scenario.model.architecture.caches
    return rules.latent.kept == "keys" and any(isinstance(owners.spec, LatentCache) for owners in caches)


def _check_split(setting: Setting) -> None:
    split, devices = setting.asked.get("tensor_split"), setting.scenario.layout.pipeline
    if split is None:
        return
    if len(split) != devices:
        detail = f"tensor_split has {len(split)} shares for {devices} GPUs."
        raise ValidationError(Fault("/tensor_split", detail))
    if not any(map(single, split)):
        raise ValidationError(Fault("/tensor_split", "At least one share must be above 0."))
