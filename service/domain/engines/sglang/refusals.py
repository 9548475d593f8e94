"""Settings that a release of SGLang has no meaning for, and the page that follows from what attends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.engines.ranks.drafts import check_draft
from service.domain.engines.sglang.compressed_checks import check_compressed
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.rules import Rules


def check(setting: Setting, rules: Rules) -> None:
    """Raise QuoteError naming the field that cannot be."""
    _check_caches(setting)
    if setting.scenario.model.architecture.compressed:
        check_compressed(setting, rules)
    else:
        _check_types(setting, rules)
    _check_ranks(setting)
    if not setting.scenario.model.architecture.compressed:
        _check_pages(setting, rules)
    check_draft(setting, rules.constants.drafts)


def page_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens of a page: as asked, as what attends takes them, or as the device's default kernel does."""
    asked, rule = setting.asked.get("block_tokens"), rules.pages
    if setting.scenario.model.architecture.compressed:
        return rules.compressed.pages.tokens
    if asked is not None:
        return int(asked)
    kinds = {owners.spec.kind for owners in setting.scenario.model.architecture.caches}
    if CacheKind.INDEXER in kinds:
        return rule.indexed
    backend = setting.asked.get("attention_backend")
    if backend is not None:
        return (*rule.by_backend[backend.casefold()], rule.tokens)[0]
    capability = (setting.gpu.compute_capability if setting.gpu else None) or 0.0
    if CacheKind.LATENT in kinds:
        return rule.latent_tokens if rule.latent_from <= capability < rule.full_below else rule.tokens
    return rule.full_tokens if rule.full_from <= capability < rule.full_below else rule.tokens


def takes_pages(setting: Setting, rules: Rules) -> bool:
    """Whether the device's default kernel of full attention takes larger pages than the others."""
    capability = (setting.gpu.compute_capability if setting.gpu else None) or 0.0
    return (
        setting.asked.get("attention_backend") is None and rules.pages.full_from <= capability < rules.pages.full_below
    )


def _check_caches(setting: Setting) -> None:
    specs = [owners.spec for owners in setting.scenario.model.architecture.caches]
    if not any(spec.attends for spec in specs):
        detail = "A pool of SGLang counts tokens of attention, and no layer of this model attends."
        raise NotSupported(Fault("/engine", detail, ("none", "vllm")))
    if any(spec.kind is CacheKind.CROSS for spec in specs):
        detail = f"How SGLang keeps the cross attention of {setting.scenario.model.name} is not described yet."
        raise NotSupported(Fault("/engine", detail, ("none",)))


def _check_types(setting: Setting, rules: Rules) -> None:
    name, known = setting.scenario.cache.name, rules.constants.cache_types
    if name not in known:
        raise NotSupported(Fault("/kv_dtype", f"SGLang has no cache of type {name}.", nearest(name, known)))


def _check_ranks(setting: Setting) -> None:
    ranks, tensor = setting.asked.get("attention_data_parallel") or 1, setting.scenario.layout.tensor
    if tensor % ranks:
        detail = f"attention_data_parallel {ranks} does not divide tensor_parallel {tensor}."
        raise ValidationError(Fault("/attention_data_parallel", detail))


def _check_pages(setting: Setting, rules: Rules) -> None:
    backend, asked, known = setting.asked.get("attention_backend"), setting.asked.get("block_tokens"), rules.pages
    if backend is None:
        return
    sizes = known.by_backend.get(backend.casefold())
    if sizes is None:
        names = ", ".join(known.by_backend)
        detail = f"No attention backend is called {backend[:40]!r}; these are: {names}."
        raise NotSupported(Fault("/attention_backend", detail, nearest(backend, known.by_backend)))
    if asked is not None and sizes and asked not in sizes:
        takes = ", ".join(map(str, sizes))
        raise ValidationError(Fault("/block_tokens", f"{backend} takes no pages of {asked} tokens, only {takes}."))
