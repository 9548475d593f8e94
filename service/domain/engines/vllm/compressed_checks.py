"""What a release does not start compressed attention with, or what of it nobody has described."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.domain.cache.indexer import IndexerCache
from service.domain.cache.latent import LatentCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.cache.sliding import SlidingCache
from service.domain.engines.vllm.drafts import ONE_LAYER
from service.domain.errors import Fault, NotSupported, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.cache.base import CacheSpec
    from service.domain.engines.vllm.compressed_rules import Compressed, PageFacts
    from service.domain.engines.vllm.setting import Setting

_BACKEND: Final = "flashmla_sparse"
_VENDORS: Final = frozenset({"", "nvidia"})
_BOTH_RATES: Final = 2


def check_compressed(setting: Setting, release: str, rules: Compressed) -> None:
    """Raise a QuoteError for a release, a device or a setting that compressed attention cannot be quoted with."""
    name = setting.model.name
    if not rules.first:
        detail = f"How vLLM pages the compressed attention of {name} is not described yet."
        raise NotSupported(Fault("/engine", detail, ("none",)))
    if not rules.described:
        detail = f"vLLM {release} does not serve {name}: {rules.first} was the first with compressed attention."
        raise NotSupported(Fault("/engine_version", detail, (rules.first,)))
    _check_shape(setting, rules.pages)
    _check_device(setting, release, rules)
    check_type(setting, rules)
    _check_asked(setting, rules.pages)


def compressed_warnings(setting: Setting, release: str, rules: Compressed, kv_dtype: str | None) -> Iterator[str]:
    """What a start has to say beside the question: the type of the cache, in releases that take no other."""
    if setting.model.architecture.compressed and rules.rule.asks_type and kv_dtype in {None, "auto"}:
        yield (
            f"vLLM {release} starts {setting.model.name} with --kv-cache-dtype fp8 alone, which nothing asked for:"
            " quoted as with it."
        )


def _check_shape(setting: Setting, facts: PageFacts) -> None:
    """Kernels and pages are made for one width of each kind."""
    specs = [owners.spec for owners in setting.model.architecture.caches]
    rates = {spec.tokens_per_row for spec in specs if isinstance(spec, LatentCache)}
    if len(rates) == _BOTH_RATES and all(_known(spec, facts) for spec in specs):
        return
    detail = f"How vLLM pages the compressed attention of {setting.model.name} is not described: it has other widths."
    raise NotSupported(Fault("/engine", detail, ("none",)))


def _known(spec: CacheSpec, facts: PageFacts) -> bool:
    if isinstance(spec, RecurrentCache):
        return spec.key_width in facts.state_tokens
    if isinstance(spec, IndexerCache):
        return spec.key_width == facts.index_elements and facts.tokens % spec.tokens_per_row == 0
    held = isinstance(spec, SlidingCache) or (isinstance(spec, LatentCache) and facts.tokens % spec.tokens_per_row == 0)
    return held and spec.kv_heads == 1 and spec.key_width == facts.row_elements


def _check_device(setting: Setting, release: str, rules: Compressed) -> None:
    device, families = setting.device, rules.rule.families
    if device.vendor not in _VENDORS:
        detail = f"How vLLM pages compressed attention on {device.name} is not described: its kernels there are others."
        raise NotSupported(Fault("/gpu", detail))
    if device.capability is not None and int(device.capability) not in families:
        runs = ", ".join(f"{family}.x" for family in families)
        detail = (
            f"vLLM {release} has no kernel of compressed attention for {device.name}, of compute capability"
            f" {device.capability:g}: it attends on {runs}."
        )
        raise NotSupported(Fault("/gpu", detail))


def check_type(setting: Setting, rules: Compressed) -> None:
    """Refuse caches of other types than the 8 bits that the kernel keeps."""
    if setting.cache.name in {*rules.cache_types, rules.own_type}:
        return
    detail = f"vLLM keeps compressed attention in 8 bits, not in {setting.cache.name}, unless its backend is another."
    raise NotSupported(Fault("/kv_dtype", detail, tuple(sorted(rules.cache_types))))


def _check_asked(setting: Setting, facts: PageFacts) -> None:
    asked = setting.asked
    if asked.attention_backend is not None and asked.attention_backend.casefold() != _BACKEND:
        detail = f"{asked.attention_backend} does not compute compressed attention, or pages it in a way not described."
        raise NotSupported(Fault("/attention_backend", detail, (_BACKEND,)))
    if asked.block_tokens not in {None, facts.tokens}:
        detail = f"Compressed attention takes blocks of {facts.tokens} tokens, not of {asked.block_tokens}."
        raise ValidationError(Fault("/block_tokens", detail))
    if asked.hybrid_cache is False:
        detail = f"{setting.model.name} keeps windows beside whole sequences, which need groups of their own."
        raise NotSupported(Fault("/hybrid_cache", detail))
    if asked.speculative_method in ONE_LAYER:
        detail = f"What a drafter by {asked.speculative_method} keeps beside compressed attention is not described."
        raise NotSupported(Fault("/speculative_method", detail, ("mtp",)))
    if asked.decode_context_parallel > 1:
        detail = "Ranks do not share the windows of compressed attention: vLLM stops at a context spread over them."
        raise ValidationError(Fault("/decode_context_parallel", detail))
