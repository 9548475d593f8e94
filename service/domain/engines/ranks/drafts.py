"""Drafters in the target's own process: which methods there are, and the layers that they add to the last stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from service.domain.engines.prediction import predicted_layers
from service.domain.errors import Fault, NotSupported, ValidationError, nearest
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad


@dataclass(frozen=True, slots=True)
class DraftRule:
    """Methods by the layers they add: the checkpoint's own, one more, or none; families that have some of their own."""

    own_layers: frozenset[str]
    one_layer: frozenset[str]
    no_layers: frozenset[str]
    families: frozenset[str]

    @property
    def known(self) -> list[str]:
        """Every method that can be quoted."""
        return sorted(self.own_layers | self.one_layer | self.no_layers)


def draft_rule(facts: Mapping[str, Any]) -> DraftRule:
    """Read the topic of a catalog entry."""
    return DraftRule(*(frozenset(facts[name]) for name in ("own_layers", "one_layer", "no_layers", "families")))


def draft_layers(setting: Setting, rule: DraftRule) -> int:
    """Layers that the drafter adds to the last stage; own ones that no config describes are taken as one."""
    method = setting.asked.get("speculative_method")
    if method is None or method in rule.no_layers:
        return 0
    own = predicted_layers(setting.scenario.model.architecture)
    return max(1, own) if method in rule.own_layers else 1


def drafted_cache_bytes(load: RankLoad, layers: int) -> int:
    """Bytes of a token in so many more layers of the average size."""
    growing = [term for term in load.terms if term.growing_bytes]
    full = [term for term in growing if term.window_tokens is None] or growing
    own = max((term.layers for term in full), default=1)
    return layers * ceil_div(sum(term.growing_bytes for term in full), own)


def check_draft(setting: Setting, rule: DraftRule) -> None:
    """Raise QuoteError for a method that cannot be quoted, or that the model has no layers for."""
    method, tokens = setting.asked.get("speculative_method"), setting.asked.get("speculative_tokens")
    if method is None:
        if tokens:
            raise ValidationError(Fault("/speculative_tokens", "Give the speculative_method that drafts them."))
        return
    if method not in rule.known:
        detail = f"Drafting by {method[:40]!r} cannot be quoted; these can: {', '.join(rule.known)}."
        raise NotSupported(Fault("/speculative_method", detail, nearest(method, rule.known)))
    model = setting.scenario.model
    known_family = model.architecture.model_type in rule.families
    if method in rule.own_layers and not known_family and not predicted_layers(model.architecture):
        raise ValidationError(Fault("/speculative_method", f"{model.name} has no layers of its own to draft with."))
