"""What a release would not start with, apart from memory, and which of its cores runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.plain import PLAIN_TYPES
from service.domain.engines.prediction import predicted_layers
from service.domain.engines.vllm.adapters import check_adapters
from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.compressed_checks import check_compressed, check_type
from service.domain.engines.vllm.drafts import NO_LAYERS, ONE_LAYER, OWN_LAYERS
from service.domain.engines.vllm.graphs import check_graphs
from service.domain.engines.vllm.media_checks import check_media
from service.domain.engines.vllm.rules import kernel_name
from service.domain.engines.vllm.setting import Asked, has_latent, has_states
from service.domain.errors import Fault, NotSupported, ValidationError, nearest

if TYPE_CHECKING:
    from service.domain.engines.vllm.policy import ReleaseRules
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Setting

_BLOCK_STEP = 16
_NOTHING_ASKED = Asked()


class Refusal(NamedTuple):
    """Why the engine would refuse to start: the constraint by its name in the answer, and a sentence."""

    constraint: str
    detail: str


def core_of(setting: Setting, release: ReleaseRules) -> str:
    """The core that runs this setting: a newer one falls back for what it cannot do yet."""
    rule, capability = release.engine, setting.device.capability
    if rule.core == "v0":
        return rule.core
    narrow = setting.cache.name not in PLAIN_TYPES
    below = capability is not None and (
        capability < rule.falls_back_below_capability
        or (narrow and capability < rule.falls_back_for_narrow_cache_below_capability)
    )
    wide = rule.falls_back_for_32_bits and setting.weights.name == "fp32"
    states = rule.falls_back_for_states and has_states(setting.model.architecture)
    form = setting.weights.name in rule.falls_back_for_formats
    return "v0" if below or wide or states or form else rule.core


def check(setting: Setting, release: ReleaseRules, rules: Rules) -> tuple[Refusal, ...]:
    """What the release refuses to start with; raises QuoteError for settings that it has no meaning for."""
    _check_family(setting, rules)
    compressed = setting.model.architecture.compressed
    if compressed:
        check_compressed(setting, release.name, rules.compressed)
    _check_backend(setting, rules)
    if setting.asked.moe_backend is not None:
        _check_kernel(setting.asked.moe_backend, rules)
    if not compressed:
        _check_block(setting, rules)
    _check_groups(setting, rules)
    _check_cache_type(setting, release, rules)
    _check_draft(setting, rules)
    check_graphs(setting, batch_of(setting, rules))
    _check_sampler(setting, rules)
    _check_ranks(setting)
    check_media(setting, rules)
    check_adapters(setting, release.name, rules)
    return (*_types(setting), *_free_memory(setting))


def _check_family(setting: Setting, rules: Rules) -> None:
    why = rules.constants.undescribed.get(setting.model.architecture.model_type)
    if why is not None:
        detail = f"What vLLM does with {setting.model.name} is not described here: {why}."
        raise NotSupported(Fault("/engine", detail, ("none",)))


def check_change(changed: Setting, setting: Setting, release: ReleaseRules, rules: Rules) -> None:
    """Raise what `check` raises of a change to a setting that it has passed.

    Where nothing is asked of the engine only the cache's type can be refused, and nothing else is looked at again.
    """
    if setting.asked != _NOTHING_ASKED:
        check(changed, release, rules)
    elif changed.cache is not setting.cache:
        _check_cache_type(changed, release, rules)


def _check_backend(setting: Setting, rules: Rules) -> None:
    asked, known = setting.asked.attention_backend, rules.constants.backends
    if asked is None:
        return
    backend = known.get(asked.casefold())
    if backend is None:
        detail = f"No attention backend is called {asked[:40]!r}; these are: {', '.join(known)}."
        raise NotSupported(Fault("/attention_backend", detail, nearest(asked, known)))
    if backend.latent != has_latent(setting.model.architecture):
        what = "latent attention, which this model has not" if backend.latent else "no latent attention"
        raise ValidationError(Fault("/attention_backend", f"{asked} computes {what}."))


def _check_kernel(asked: str, rules: Rules) -> None:
    known = rules.constants.expert_kernels
    if kernel_name(asked) not in known:
        detail = f"No kernels of experts are called {asked[:40]!r}; these are: {', '.join(known)}."
        raise NotSupported(Fault("/moe_backend", detail, nearest(asked, known)))


def takes_block(setting: Setting, rules: Rules, tokens: int) -> bool:
    """Whether blocks of so many tokens can be asked for: pages beside states come in sizes that cannot."""
    sizes = _block_sizes(setting, rules)
    return tokens in sizes or (not sizes and tokens % _BLOCK_STEP == 0)


def _block_sizes(setting: Setting, rules: Rules) -> tuple[int, ...]:
    name = setting.asked.attention_backend
    return rules.constants.backends[name.casefold()].sizes if name else rules.blocks.sizes


def _check_block(setting: Setting, rules: Rules) -> None:
    asked = setting.asked.block_tokens
    if asked is None or takes_block(setting, rules, asked):
        return
    sizes = _block_sizes(setting, rules)
    takes = ", ".join(map(str, sizes)) if sizes else f"multiples of {_BLOCK_STEP}"
    who = setting.asked.attention_backend or "vLLM"
    raise ValidationError(Fault("/block_tokens", f"{who} takes no blocks of {asked} tokens, only {takes}."))


def _check_groups(setting: Setting, rules: Rules) -> None:
    """States and caches of tokens have no form in common, so that they need groups of their own."""
    architecture = setting.model.architecture
    kinds = {owners.spec.kind for owners in architecture.caches}
    if setting.asked.hybrid_cache is False and rules.paging.states and has_states(architecture) and len(kinds) > 1:
        detail = (
            f"{setting.model.name} has states beside caches of tokens: vLLM does not start it without groups of both."
        )
        raise ValidationError(Fault("/hybrid_cache", detail))


def _check_cache_type(setting: Setting, release: ReleaseRules, rules: Rules) -> None:
    name = setting.cache.name
    if setting.model.architecture.compressed:
        check_type(setting, rules.compressed)
        return
    if name in PLAIN_TYPES:
        return
    known = rules.constants.cache_types.get(name)
    if known is None:
        names = (*PLAIN_TYPES, *rules.constants.cache_types)
        raise NotSupported(Fault("/kv_dtype", f"vLLM has no cache of type {name}.", nearest(name, names)))
    if release.release < known.since:
        detail = f"vLLM {release.name} has no cache of type {name}; {known.first} was the first."
        raise NotSupported(Fault("/kv_dtype", detail))


def _check_draft(setting: Setting, rules: Rules) -> None:
    method, tokens = setting.asked.speculative_method, setting.asked.speculative_tokens
    if method is None:
        if tokens:
            raise ValidationError(Fault("/speculative_tokens", "Give the speculative_method that drafts them."))
        return
    known = sorted(OWN_LAYERS | ONE_LAYER | NO_LAYERS)
    if method not in known:
        detail = f"Drafting by {method[:40]!r} cannot be quoted; these can: {', '.join(known)}."
        raise NotSupported(Fault("/speculative_method", detail, nearest(method, known)))
    architecture = setting.model.architecture
    known_family = architecture.model_type in rules.constants.own_drafts
    if method in OWN_LAYERS and not known_family and not predicted_layers(architecture):
        detail = f"{setting.model.name} has no layers of its own to draft with."
        raise ValidationError(Fault("/speculative_method", detail))
    if tokens >= setting.limit_tokens:
        detail = f"A draft of {tokens} tokens is longer than the {setting.limit_tokens} that the engine starts for."
        raise ValidationError(Fault("/speculative_tokens", detail))


def _check_sampler(setting: Setting, rules: Rules) -> None:
    name, methods = setting.asked.sampler_backend, rules.constants.methods
    if name is not None and name not in methods:
        detail = f"No sampler is called {name[:40]!r}; these are: {', '.join(methods)}."
        raise NotSupported(Fault("/sampler_backend", detail, nearest(name, methods)))


def _check_ranks(setting: Setting) -> None:
    ranks, tensor = setting.asked.decode_context_parallel, setting.layout.tensor
    if tensor % ranks:
        detail = f"decode_context_parallel {ranks} does not divide tensor_parallel {tensor}."
        raise ValidationError(Fault("/decode_context_parallel", detail))
    if ranks > 1 and not has_latent(setting.model.architecture):
        _check_copies(setting)


def _check_copies(setting: Setting) -> None:
    """A context is shared out among ranks that hold the same heads, which latent attention has on all of them."""
    model, tensor, ranks = setting.model, setting.layout.tensor, setting.asked.decode_context_parallel
    heads, queries = model.architecture.kv_heads, model.architecture.query_heads
    if not heads:
        return
    if ranks > tensor // heads:
        detail = (
            f"decode_context_parallel {ranks} needs every KV head on {ranks} ranks: tensor_parallel {tensor} puts"
            f" {model.name}'s {heads} on {max(1, tensor // heads)} each."
        )
        raise ValidationError(Fault("/decode_context_parallel", detail))
    if queries // heads % ranks:
        detail = f"decode_context_parallel {ranks} does not divide the {queries // heads} query heads of each KV head."
        raise ValidationError(Fault("/decode_context_parallel", detail))


def _types(setting: Setting) -> tuple[Refusal, ...]:
    types = setting.device.types
    if types and "bf16" not in types and "bf16" in {setting.weights.name, setting.cache.name}:
        return (Refusal("dtype", f"{setting.device.name} does not compute in bf16: ask for fp16."),)
    return ()


def _free_memory(setting: Setting) -> tuple[Refusal, ...]:
    memory = setting.memory
    if memory.pool_bytes is not None:
        return ()
    free = memory.memory_bytes - memory.others_bytes
    if memory.memory_bytes * memory.utilization > free:
        detail = f"utilization {memory.utilization:g} asks for more than the {max(0, free):,} bytes that are free"
        return (Refusal("free_memory", detail),)
    return ()
