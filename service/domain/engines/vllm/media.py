"""What a start profiles of pictures, films and sounds, by what is asked of it: limits, sizes, a whole encoder."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.architecture import ModuleKind
from service.domain.engines.vllm.media_rules import MODALITIES, Family, Item
from service.domain.engines.vllm.shapes import TOWERS, tower_of
from service.domain.errors import Fault, ValidationError, nearest
from service.domain.memo import remembered
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Asked, Batch, Setting

_LIMIT = re.compile(r"([a-z_]{1,20})=(\d{1,6})(?:@([1-9]\d{0,5})x([1-9]\d{0,5}))?", re.ASCII)
_UNREAD = Family({"image": Item(), "video": Item(), "audio": Item()})
"""What encoders take where nobody has read their family."""


class Limit(NamedTuple):
    """Items of a modality in one prompt, and the sides in pixels of the one that is profiled, 0 for the largest."""

    most: int
    width: int = 0
    height: int = 0


class Media(NamedTuple):
    """The items of a model: its `family`'s, those `taken` by what is asked, and the `limits` that are."""

    family: Family
    taken: Mapping[str, Item]
    limits: Mapping[str, Limit]
    cut: bool
    """Whether a limit leaves some of the family's items out."""
    picture_tokens: int | None
    """Of the largest picture, where its pixels are asked for and the family's tokens follow from them."""

    def unknown(self) -> list[str]:
        """The modalities that are taken and whose tokens nobody knows."""
        return [name for name, item in self.taken.items() if not item.size(1, self.picture_tokens)]

    def tokens(self, limit: Limit) -> int | None:
        """Tokens of a picture of those sides; None for the largest one."""
        if not (limit.width and limit.height and self.family.pixels):
            return None
        return max(1, round(limit.width / self.family.pixels)) * max(1, round(limit.height / self.family.pixels))


def asked_of(asked: Asked) -> tuple[object, ...]:
    """All that is asked of encoders, as a part of a key."""
    own = (
        asked.encoder_budget_tokens,
        asked.encoder_image_pixels,
        asked.encoder_profiling,
        asked.encoder_data_parallel,
    )
    return (*own, tuple(asked.encoder_limits or ()))


def media_of(setting: Setting, rules: Rules) -> Media:
    """The model's items; raises ValidationError for a limit that is none."""
    architecture, limits = setting.model.architecture, _limits(setting.asked)
    kinds = remembered(setting.model, "vllm-towers", lambda: {m.kind for m in architecture.modules} & TOWERS)
    family = rules.media.families.get(architecture.model_type, _UNREAD)
    own = {name: item for name, item in family.items.items() if _tower(name) in kinds}
    taken = {name: item for name, item in own.items() if name not in limits or limits[name].most}
    pixels = setting.asked.encoder_image_pixels
    picture = max(1, pixels // family.pixels**2) if pixels and family.pixels else None
    return Media(family, taken, limits, len(taken) < len(own), picture)


def _limits(asked: Asked) -> dict[str, Limit]:
    found: dict[str, Limit] = {}
    for at, entry in enumerate(asked.encoder_limits or ()):
        match = _LIMIT.fullmatch(entry)
        if match is None:
            detail = f"{entry[:40]!r} is no limit: write image=2, or image=2@512x512 with a width and a height."
            raise ValidationError(Fault(f"/encoder_limits/{at}", detail))
        if match[1] not in MODALITIES:
            detail = f"No modality is called {match[1]!r}; these are: {', '.join(MODALITIES)}."
            raise ValidationError(Fault(f"/encoder_limits/{at}", detail, nearest(match[1], MODALITIES)))
        if match[1] in found:
            raise ValidationError(Fault(f"/encoder_limits/{at}", f"{match[1]} is limited twice: give one of them."))
        found[match[1]] = Limit(*(int(number or 0) for number in match.groups()[1:]))
    return found


def _tower(modality: str) -> ModuleKind:
    return ModuleKind.AUDIO if modality == "audio" else ModuleKind.VISION


def is_bare(setting: Setting, rules: Rules) -> bool:
    """Whether no picture, no film and no sound is ever taken."""
    if setting.asked.encoder_budget_tokens == 0:
        return True
    return bool(setting.asked.encoder_limits) and not media_of(setting, rules).taken


def follows_length(setting: Setting, rules: Rules) -> bool:
    """Whether what is profiled follows the longest sequence: films do, and what a limit or a budget leaves."""
    asked, family = setting.asked, setting.model.architecture.model_type
    if asked.encoder_budget_tokens is not None or asked.encoder_limits:
        return True
    return any(item.most > 1 for item in rules.media.families.get(family, _UNREAD).items.values())


def takes_media(setting: Setting, rules: Rules) -> bool:
    """Whether the model has an encoder and some of its items may come."""
    return bool(tower_of(setting.model).hidden) and not is_bare(setting, rules)


def is_profiled(setting: Setting, rules: Rules) -> bool:
    """Whether the start runs an encoder before it sizes its cache."""
    return setting.asked.encoder_profiling and takes_media(setting, rules)


def idle_towers(setting: Setting, rules: Rules) -> frozenset[ModuleKind]:
    """The kinds of encoders of which the release loads none, since their items are never taken."""
    if not rules.towers.leaves_out(setting.model.architecture.model_type):
        return frozenset()
    if is_bare(setting, rules):
        return TOWERS
    if not (rules.towers.apart and setting.asked.encoder_limits):
        return frozenset()
    return TOWERS - {_tower(name) for name in media_of(setting, rules).taken}


def stands_whole(setting: Setting, rules: Rules) -> bool:
    """Whether every rank holds the whole encoder, and runs it for its own share of the items."""
    whole = rules.media.whole or frozenset()
    asked = setting.asked.encoder_data_parallel and setting.layout.tensor > 1
    return asked and setting.model.architecture.model_type in whole


def largest_item(setting: Setting, rules: Rules, media: Media) -> tuple[str, int]:
    """The modality that is profiled and the tokens of its largest item; no name where that cannot be told."""
    if media.unknown() or not media.taken:
        return "", rules.constants.encoder.item_of(setting.model.architecture.model_type)
    sizes = {name: item.size(setting.limit_tokens, media.picture_tokens) or 0 for name, item in media.taken.items()}
    # Of two alike, releases differ in which they take: the one that nothing limits is the larger.
    name = max(sizes, key=lambda each: (sizes[each], each not in media.limits))
    return name, sizes[name]


def profiled_tokens(setting: Setting, rules: Rules, batch: Batch) -> int:
    """Tokens of the items that are profiled: a batch's, or one item's where a release profiles that."""
    asked = setting.asked.encoder_budget_tokens
    if asked is not None:
        # A film of more tokens than the longest sequence is cut to it: no request could hold it.
        return min(asked, max(setting.limit_tokens, batch.tokens))
    media = media_of(setting, rules)
    name, item = largest_item(setting, rules, media)
    if rules.core == "v0":
        return min(batch.tokens, item)
    budget, limit = max(batch.tokens, item), media.limits.get(name)
    return budget if limit is None else _limited_tokens(setting, batch, media, limit, item=item, budget=budget)


def _limited_tokens(  # noqa: PLR0913  # a limit, and what it is a limit of
    setting: Setting, batch: Batch, media: Media, limit: Limit, *, item: int, budget: int
) -> int:
    """Tokens of the items that a limit leaves, where one has `item` tokens and a batch room for `budget`."""
    # As many as a batch has room for, and as many as its sequences may bring.
    items = min(budget // item, batch.sequences * max(1, min(limit.most, setting.limit_tokens // item)))
    sized = media.tokens(limit)
    if sized is not None:
        return items * min(sized, item)
    return budget if items == budget // item else items * item


def item_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens of the largest item that is profiled."""
    return largest_item(setting, rules, media_of(setting, rules))[1]


def tokens_of_a_rank(tokens: int, item: int, ranks: int) -> int:
    """Tokens that one of several ranks embeds, where each takes whole items."""
    return ceil_div(max(1, tokens // item), ranks) * min(item, tokens)
