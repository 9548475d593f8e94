"""From a setting to its plan of groups, its weights as loaded, and what a request may hold: all follow from shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.engines.vllm.compressed import packed
from service.domain.engines.vllm.drafts import drafted_caches, drafted_layers
from service.domain.engines.vllm.groups import Flight, Plan, plan
from service.domain.engines.vllm.loading import Loaded, loaded
from service.domain.engines.vllm.media import asked_of
from service.domain.engines.vllm.pages import PageRules, paged_layers
from service.domain.engines.vllm.rules import at_capability
from service.domain.errors import Fault, NotSupported
from service.domain.memo import remembered
from service.domain.parallel import stage_layers
from service.domain.units import ceil_div
from service.domain.weights import whole_model

if TYPE_CHECKING:
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Batch, Setting


def plan_of(setting: Setting, rules: Rules) -> Plan:
    """The groups of the model's caches, remembered with it."""
    asked, layout = setting.asked, setting.layout
    key = (
        "vllm-plan", rules, setting.cache, layout.tensor, layout.pipeline, setting.device.capability,
        asked.hybrid_cache, asked.block_tokens, asked.attention_backend, asked.speculative_method,
        asked.speculative_tokens,
    )  # fmt: skip
    found: Plan = remembered(setting.model, key, lambda: _planned(setting, rules))
    return found


def _planned(setting: Setting, rules: Rules) -> Plan:
    architecture = setting.model.architecture
    caches = (*architecture.caches, *drafted_caches(setting))
    stages = _stages(setting)
    if architecture.compressed:
        return packed(caches, stages, rules.compressed)
    kinds = paged_layers(caches, setting.cache, setting.layout.tensor, page_rules(setting, rules))
    if not kinds:
        detail = f"This release keeps states outside its blocks, and {setting.model.name} has nothing else to keep."
        raise NotSupported(Fault("/engine_version", detail))
    found = plan(kinds, stages, block_tokens(setting, rules), rules.paging.group_ratio)
    if not all(found.stage_bytes):
        stage = found.stage_bytes.index(0)
        detail = f"Stage {stage} of {setting.layout.pipeline} has no layer that keeps a cache of its own."
        raise NotSupported(Fault("/pipeline_parallel", detail))
    return found


def _stages(setting: Setting) -> list[range]:
    """Layers of every pipeline stage; a drafter's stand on the last."""
    stages = list(stage_layers(setting.model.architecture.layers, setting.layout.pipeline))
    stages[-1] = range(stages[-1].start, stages[-1].stop + drafted_layers(setting))
    return stages


def page_rules(setting: Setting, rules: Rules) -> PageRules:
    """The release's page rules for this model and these settings."""
    paging, hybrid = rules.paging, setting.asked.hybrid_cache
    kinds = {owners.spec.kind for owners in setting.model.architecture.caches}
    alone = kinds == {CacheKind.SLIDING}
    windows = paging.windows == "true" and hybrid is not False
    chunks = paging.chunks if hybrid is None else hybrid and rules.core == "v1"
    scale = rules.constants.cache_types.get(setting.cache.name)
    return PageRules(
        windows=windows or (alone and paging.windows != "false"),
        chunks=chunks,
        states=paging.states,
        latent_expanded=paging.latent_expanded,
        latent_multiple_bytes=paging.latent_multiple_bytes,
        scale_bytes=scale.scale_bytes if scale else 0,
        sparse_narrow=CacheKind.INDEXER in kinds,
        speculative_tokens=setting.asked.speculative_tokens,
    )


def block_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens of a block before recurrent state asks for more."""
    asked, rule = setting.asked, rules.blocks
    if asked.block_tokens is not None:
        return asked.block_tokens
    if asked.attention_backend is not None:
        return rules.constants.backends[asked.attention_backend.casefold()].tokens
    kinds = {owners.spec.kind for owners in setting.model.architecture.caches}
    if CacheKind.INDEXER in kinds:
        return rule.sparse_tokens
    if CacheKind.LATENT in kinds and CacheKind.RECURRENT not in kinds:
        return at_capability(rule.latent, setting.device.capability, rule.tokens)
    return rule.tokens


def flight_of(setting: Setting, rules: Rules, batch: Batch) -> Flight:
    """Tokens in flight, and state blocks of a request: one more where prefixes are cached, one for each draft token."""
    asked, cached = setting.asked, setting.asked.prefix_caching
    if cached is None:
        cached = rules.paging.states_cached_by_default
    states = (2 if cached else 1) + asked.speculative_tokens
    return Flight(batch.flight_tokens, states, asked.decode_context_parallel)


def loaded_of(setting: Setting, rules: Rules) -> Loaded:
    """The weights of every stage as loaded, remembered with the model."""
    draft = drafted_layers(setting)
    key = (
        "vllm-weights",
        rules,
        setting.weights,
        setting.layout,
        setting.device.capability,
        draft,
        asked_of(setting.asked),
        setting.asked.cpu_offload_bytes,
    )
    found: Loaded = remembered(setting.model, key, lambda: loaded(setting, rules, draft))
    return found


def weight_bytes(setting: Setting, found: Loaded) -> tuple[int, ...]:
    """Weights of every stage, scaled where the question sets the whole model's size or its parameters."""
    if setting.weight_bytes is None and setting.parameters is None:
        return found.stages
    architecture = setting.model.architecture
    whole = whole_model(architecture, setting.weights).bytes
    asked = setting.weight_bytes
    if asked is None:
        asked = ceil_div(whole * (setting.parameters or 0), architecture.parameters)
    return tuple(ceil_div(size * asked, whole) for size in found.stages)
