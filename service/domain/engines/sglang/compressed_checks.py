"""What a release does not start compressed attention with, or what of it nobody has described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.errors import Fault, NotSupported, ValidationError

if TYPE_CHECKING:
    from service.domain.cache.base import CacheSpec
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.compressed_rules import PageFacts
    from service.domain.engines.sglang.rules import Rules

_BACKEND: Final = "dsv4"
_VENDOR: Final = "nvidia"


def check_compressed(setting: Setting, rules: Rules) -> None:
    """Raise a QuoteError for a release, a device or a setting that compressed attention cannot be quoted with."""
    name, known = setting.scenario.model.name, rules.compressed
    if not known.first:
        detail = f"How SGLang keeps the compressed attention of {name} is not described yet."
        raise NotSupported(Fault("/engine", detail, ("none",)))
    if not known.described:
        detail = f"SGLang {rules.name} does not serve {name}: {known.first} was the first with compressed attention."
        raise NotSupported(Fault("/engine_version", detail, (known.first,)))
    _check_shape(setting, known.pages)
    _check_device(setting, rules)
    if setting.scenario.cache.name != known.own_type:
        detail = f"SGLang keeps compressed attention in 8 bits, not in {setting.scenario.cache.name}."
        raise NotSupported(Fault("/kv_dtype", detail, tuple(sorted(known.cache_types))))
    _check_asked(setting, rules)


def _check_shape(setting: Setting, facts: PageFacts) -> None:
    """Kernels and pages are made for one width of each kind."""
    specs = [owners.spec for owners in setting.scenario.model.architecture.caches]
    rates = {spec.tokens_per_row for spec in specs if isinstance(spec, LatentCache)}
    if rates == facts.rates and all(_known(spec, facts) for spec in specs):
        return
    name = setting.scenario.model.name
    detail = f"How SGLang keeps the compressed attention of {name} is not described: it has other widths."
    raise NotSupported(Fault("/engine", detail, ("none",)))


def _known(spec: CacheSpec, facts: PageFacts) -> bool:
    if isinstance(spec, RecurrentCache):
        return True
    if isinstance(spec, IndexerCache):
        return spec.key_width == facts.index_elements and facts.tokens % spec.tokens_per_row == 0
    held = isinstance(spec, SlidingCache) or (isinstance(spec, LatentCache) and facts.tokens % spec.tokens_per_row == 0)
    return held and spec.kv_heads == 1 and spec.key_width == facts.row_elements


def _check_device(setting: Setting, rules: Rules) -> None:
    gpu, families = setting.gpu, rules.compressed.rule.families
    if gpu is None:
        return
    if gpu.vendor != _VENDOR:
        detail = f"How SGLang keeps compressed attention on {gpu.name} is not described: its kernels there are others."
        raise NotSupported(Fault("/gpu", detail))
    if gpu.compute_capability is not None and int(gpu.compute_capability) not in families:
        runs = ", ".join(f"{family}.x" for family in families)
        detail = (
            f"SGLang {rules.name} has no kernel of compressed attention for {gpu.name}, of compute capability"
            f" {gpu.compute_capability:g}: it attends on {runs}."
        )
        raise NotSupported(Fault("/gpu", detail))


def _check_asked(setting: Setting, rules: Rules) -> None:
    asked, page = setting.asked, rules.compressed.pages.tokens
    backend = asked.get("attention_backend")
    if backend is not None and backend.casefold() != _BACKEND:
        detail = f"SGLang attends over compressed vectors with {_BACKEND} alone, not with {backend[:40]}."
        raise NotSupported(Fault("/attention_backend", detail, (_BACKEND,)))
    if asked.get("block_tokens") not in {None, page}:
        detail = f"Compressed attention takes pages of {page} tokens, not of {asked['block_tokens']}."
        raise ValidationError(Fault("/block_tokens", detail))
    if asked.get("hybrid_cache") is False:
        detail = f"{setting.scenario.model.name} keeps windows beside compressed vectors, in a pool of their own."
        raise NotSupported(Fault("/hybrid_cache", detail))
    own = rules.constants.drafts.own_layers
    if asked.get("speculative_method") not in {None, *own}:
        detail = "Only the checkpoint's own layers draft beside compressed attention."
        raise NotSupported(Fault("/speculative_method", detail, tuple(sorted(own))))
