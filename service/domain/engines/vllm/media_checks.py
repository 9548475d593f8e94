"""What is asked of encoders and cannot be told, each with a way out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.media import is_profiled, largest_item, media_of
from service.domain.engines.vllm.media_rules import GIVE_BUDGET
from service.domain.engines.vllm.shapes import tower_of
from service.domain.errors import Fault, NotSupported

if TYPE_CHECKING:
    from service.domain.engines.vllm.media import Media
    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Setting

_LIMITS = "/encoder_limits"
_VOWELS = ("a", "i")


def check_media(setting: Setting, rules: Rules) -> None:
    """Raise QuoteError for limits and sizes whose effect nobody can tell; of models without encoders they have none."""
    asked, seen = setting.asked, bool(tower_of(setting.model).hidden)
    if not (seen or asked.encoder_limits):
        return
    media = media_of(setting, rules)
    if not seen:
        return
    if asked.encoder_data_parallel and rules.media.whole is None:
        raise NotSupported(
            Fault("/encoder_data_parallel", "Which encoders stand whole on every rank was not read of this release.")
        )
    if asked.encoder_budget_tokens is not None:
        return
    if rules.core == "v0" and any(limit.most != 1 for limit in media.limits.values()):
        raise NotSupported(Fault(_LIMITS, f"Limits other than 1 are not modelled for the older core: {GIVE_BUDGET}."))
    if is_profiled(setting, rules):
        _check_known(setting, rules, media)
        _check_sizes(setting, rules, media)


def _check_known(setting: Setting, rules: Rules, media: Media) -> None:
    unknown = media.unknown()
    if setting.asked.encoder_image_pixels and not media.picture_tokens:
        detail = f"How many tokens {setting.model.name} makes of so many pixels is not known of this release"
        raise NotSupported(Fault("/encoder_image_pixels", f"{detail}: {GIVE_BUDGET}."))
    if unknown:
        _check_unknown(setting, rules, media, unknown[0])


def _check_unknown(setting: Setting, rules: Rules, media: Media, modality: str) -> None:
    """A batch of unknown items is as long as one of known ones, unless limits leave some out or too few to fill it."""
    size = f"many tokens the largest {modality} of {setting.model.name} has is not known"
    if media.cut:
        raise NotSupported(Fault(_LIMITS, f"How {size}: {GIVE_BUDGET}."))
    counts = [limit.most for name, limit in media.limits.items() if name in media.taken]
    batch = batch_of(setting, rules)
    if counts and batch.sequences * min(counts) * rules.media.least_tokens < batch.tokens:
        detail = f"{batch.sequences} sequences with {min(counts)} each may bring fewer items than a batch of"
        raise NotSupported(Fault(_LIMITS, f"{detail} {batch.tokens:,} tokens holds, and how {size}: {GIVE_BUDGET}."))


def _check_sizes(setting: Setting, rules: Rules, media: Media) -> None:
    if media.family.fixed:
        return
    profiled, _ = largest_item(setting, rules, media)
    for name, limit in media.limits.items():
        counts = name in media.taken and profiled in {name, ""}
        if counts and limit.width and not (media.family.pixels and name == "image" and profiled):
            article = "an" if name.startswith(_VOWELS) else "a"
            detail = f"How many tokens {article} {name} of {limit.width} x {limit.height} has is not known"
            raise NotSupported(Fault(_LIMITS, f"{detail}: {GIVE_BUDGET}."))
