"""Batch defaults by release, device and model, and what a release refuses of them (accounting 2.7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.engines.vllm.activations import second_runner
from service.domain.engines.vllm.media import is_bare
from service.domain.engines.vllm.setting import Batch, has_latent
from service.domain.engines.vllm.shapes import tower_of
from service.domain.errors import Fault, ValidationError
from service.domain.units import GIB

if TYPE_CHECKING:
    from service.domain.engines.vllm.rules import BatchRule, Rules, Tier
    from service.domain.engines.vllm.setting import Device, Setting


def batch_of(setting: Setting, rules: Rules) -> Batch:
    """The batch that the engine starts with; raises ValidationError where its settings contradict each other."""
    asked, rule = setting.asked, rules.batch
    tier = _tier(rule, setting.device, setting.memory.memory_bytes) if rule.tiers else None
    tokens = asked.max_batched_tokens
    if tokens is None:
        tokens = tier.tokens if tier else _prompt_tokens(rule, setting)
        if setting.model.architecture.whole_pictures and not is_bare(setting, rules):
            tokens = max(tokens, rule.whole_picture_tokens)
    default = tier.sequences if tier else rule.sequences
    sequences = asked.max_sequences_limit
    if sequences is None:
        sequences = min(default, tokens)
    elif asked.max_batched_tokens is None:
        tokens = max(tokens, sequences)
    if tokens < sequences:
        detail = f"max_batched_tokens {tokens} is below the {sequences} sequences of a batch; vLLM refuses to start."
        raise ValidationError(Fault("/max_batched_tokens", detail))
    return Batch(
        tokens,
        sequences,
        _concurrent(setting, rules),
        _profiled(setting, rules, tokens, sequences),
    )


def _tier(rule: BatchRule, device: Device, memory_bytes: int) -> Tier:
    """The first tier that the device belongs to; the last one is for all others."""
    for tier in rule.tiers[:-1]:
        large = memory_bytes >= tier.least_gib * GIB
        if large and (not tier.named or device.named(tier.named)) and not device.named(tier.not_named):
            return tier
    return rule.tiers[-1]


def _prompt_tokens(rule: BatchRule, setting: Setting) -> int:
    """Whole prompts, or chunks of long ones; latent attention had no chunks there."""
    limit = setting.limit_tokens
    if limit > rule.chunks_above_tokens and not has_latent(setting.model.architecture):
        return rule.chunk_tokens
    return max(limit, rule.least_tokens)


def _concurrent(setting: Setting, rules: Rules) -> int:
    """Batches whose tokens may be in flight together; one where a release counts no more.

    Scheduling ahead adds one, but the first of two model runners does not schedule the stages of a pipeline ahead.
    """
    pipeline = setting.layout.pipeline
    if not rules.paging.concurrent_batches:
        return 1
    if setting.asked.async_scheduling is False or (pipeline > 1 and not second_runner(setting, rules)):
        return pipeline
    return pipeline + 1


def _profiled(setting: Setting, rules: Rules, tokens: int, sequences: int) -> int:
    """The older core profiles models with an encoder on as many sequences as hold one item each."""
    if rules.core != "v0" or not tower_of(setting.model).hidden:
        return sequences
    return max(1, min(sequences, tokens // rules.constants.encoder.item_of(setting.model.architecture.model_type)))
