"""What the share of memory follows from: device, ranks, attention, drafter, encoder and captured graphs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.cache.base import CacheKind
from service.domain.engines.ranks.attention import attention_ranks
from service.domain.engines.sglang.fraction import Batch, Layout, batch_of, fraction_of
from service.domain.engines.sglang.vision import reads_media, vision_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.rules import Rules
    from service.domain.gpu import Gpu

_MIB = 1 << 20


def layout_of(setting: Setting, rules: Rules) -> Layout:
    """What the share of memory follows from."""
    scenario, gpu = setting.scenario, setting.gpu
    layout = scenario.layout
    known = gpu and _driver_total(gpu, setting.asked)
    return Layout(
        max(1, (known or scenario.budget.memory_bytes) // _MIB),
        layout.tensor * layout.pipeline,
        layout.tensor,
        attention_ranks(setting),
        CacheKind.LATENT in _kinds(setting) and not scenario.model.architecture.compressed,
        _drafts(setting, rules),
        vision_of(scenario.model, rules.encoder),
        _captures_prompts(setting, rules),
    )


def _driver_total(gpu: Gpu, asked: Mapping[str, Any]) -> int | None:
    """The size that the driver reports, unless the question asks for another memory than the catalog has."""
    own = gpu.advertised_bytes if asked.get("memory_basis") == "advertised" else gpu.visible_bytes
    return gpu.driver_total_bytes if asked.get("memory_bytes") in {None, own} else None


def batch_for(setting: Setting, rules: Rules, layout: Layout) -> Batch:
    """The batch of the setting."""
    asked = setting.asked
    graphs = not setting.flag("enforce_eager", default=False)
    return batch_of(rules, layout, asked.get("max_batched_tokens"), asked.get("max_sequences_limit"), graphs=graphs)


def share_of(setting: Setting, rules: Rules) -> float:
    """The share of free memory, as asked or the release's."""
    asked: float | None = setting.asked.get("memory_utilization")
    layout = layout_of(setting, rules)
    return asked if asked is not None else fraction_of(rules, layout, batch_for(setting, rules, layout))


def used_share(setting: Setting, rules: Rules, share: float) -> float:
    """The share as the backend that attends leaves it."""
    return share * rules.workspace.factor if _takes_workspace(setting, rules) else share


def _takes_workspace(setting: Setting, rules: Rules) -> bool:
    rule, asked = rules.workspace, setting.asked.get("attention_backend")
    if not rule.backend or setting.scenario.limit_tokens <= rule.above_tokens:
        return False
    if asked is not None:
        return bool(asked.casefold() == rule.backend)
    if setting.gpu is None or setting.gpu.vendor != rule.vendor:
        return False
    if CacheKind.LATENT not in _kinds(setting):
        return True
    return setting.scenario.model.architecture.query_heads // setting.scenario.layout.tensor in rule.latent_heads


def _drafts(setting: Setting, rules: Rules) -> bool:
    method = setting.asked.get("speculative_method")
    return method is not None and method not in rules.constants.drafts.no_layers


def _kinds(setting: Setting) -> set[CacheKind]:
    return {owners.spec.kind for owners in setting.scenario.model.architecture.caches}


def _captures_prompts(setting: Setting, rules: Rules) -> bool:
    """Whether the release captures graphs of prompts of this model in this layout."""
    rule, kinds, model = rules.prompt_graphs, _kinds(setting), setting.scenario.model
    family = model.architecture.model_type
    if not rule.captured or family in rule.families or rule.never_with & _traits(setting, rules, family):
        return False
    if CacheKind.LATENT not in kinds or rule.latent == "all":
        return True
    return rule.latent == "indexed" and CacheKind.INDEXER in kinds


def _traits(setting: Setting, rules: Rules, family: str) -> set[str]:
    """What of the setting may stand against them, in the catalog's words."""
    held = {
        "drafts": _drafts(setting, rules),
        "attention_ranks": attention_ranks(setting) > 1,
        "stages": setting.scenario.layout.pipeline > 1,
        "media": reads_media(setting.scenario.model) and family not in rules.prompt_graphs.media_families,
        "other_vendors": setting.gpu is not None and setting.gpu.vendor != "nvidia",
    }
    return {name for name, holds in held.items() if holds}
