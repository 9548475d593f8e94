"""Settings that a release of TensorRT-LLM has no meaning for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.engines.ranks.drafts import check_draft
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.tensorrt_llm.rules import Rules

_UNDESCRIBED = {CacheKind.RECURRENT: "recurrent state", CacheKind.CROSS: "cross attention"}
_NEVER = {CacheKind.CROSS}


def check(setting: Setting, rules: Rules) -> None:
    """Raise QuoteError naming the field that cannot be."""
    _check_caches(setting, rules)
    _check_types(setting, rules)
    _check_ranks(setting)
    _check_block(setting, rules)
    check_draft(setting, rules.constants.drafts)
    _check_drafted_states(setting)


def _check_caches(setting: Setting, rules: Rules) -> None:
    model = setting.scenario.model
    specs = [owners.spec for owners in model.architecture.caches]
    unknown = _NEVER if model.architecture.model_type in rules.states.families else _UNDESCRIBED.keys()
    compressed = any(isinstance(spec, LatentCache | IndexerCache) and spec.tokens_per_row > 1 for spec in specs)
    found = ["compressed attention"] * compressed + [_UNDESCRIBED[spec.kind] for spec in specs if spec.kind in unknown]
    if found == [_UNDESCRIBED[CacheKind.RECURRENT]]:
        _check_code(model.architecture.model_type, rules)
    if found:
        detail = f"How TensorRT-LLM keeps the {found[0]} of {model.name} is not described yet."
        raise NotSupported(Fault("/engine", detail, ("none",)))


def _check_code(family: str, rules: Rules) -> None:
    """Say so where the release could not even load the model."""
    code = rules.missing.get(family)
    if code is None:
        return
    detail = f"The PyTorch backend of TensorRT-LLM {rules.name} has no model code for {code.architecture}"
    later = f"{detail}; {code.since} and later have."
    if code.since is None or not code.quoted:
        raise NotSupported(Fault("/engine", later if code.since else f"{detail}.", ("none",)))
    raise NotSupported(Fault("/engine_version", later, (code.since,)))


def _check_drafted_states(setting: Setting) -> None:
    kinds = {owners.spec.kind for owners in setting.scenario.model.architecture.caches}
    if setting.asked.get("speculative_method") is not None and CacheKind.RECURRENT in kinds:
        detail = "How TensorRT-LLM keeps the recurrent states of drafted tokens is not described yet."
        raise NotSupported(Fault("/speculative_method", detail))


def _check_types(setting: Setting, rules: Rules) -> None:
    name, known = setting.scenario.cache.name, rules.constants.cache_types
    if name not in known:
        raise NotSupported(Fault("/kv_dtype", f"TensorRT-LLM has no cache of type {name}.", nearest(name, known)))


def _check_ranks(setting: Setting) -> None:
    ranks, tensor = setting.asked.get("attention_data_parallel") or 1, setting.scenario.layout.tensor
    if ranks not in {1, tensor}:
        detail = f"attention_data_parallel is 1 or all of tensor_parallel, {tensor}, with TensorRT-LLM, not {ranks}."
        raise ValidationError(Fault("/attention_data_parallel", detail))


def _check_block(setting: Setting, rules: Rules) -> None:
    asked, sizes = setting.asked.get("block_tokens"), rules.blocks.sizes
    if asked is not None and asked not in sizes:
        takes = ", ".join(map(str, sizes))
        detail = f"TensorRT-LLM takes no blocks of {asked} tokens, only {takes}."
        raise ValidationError(Fault("/block_tokens", detail))
