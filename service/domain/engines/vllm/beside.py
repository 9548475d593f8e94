"""What no part of the reserve accounts for: how far starts of a kind were from their quotes."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from service.domain.engines.vllm.media import is_profiled
from service.domain.engines.vllm.rules import Beside
from service.domain.engines.vllm.setting import has_states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Setting


def beside_of(setting: Setting, rules: Rules) -> Beside:
    """The kinds that a start is of, as independent of each other."""
    spread = [
        rules.constants.interval_beside[kind]
        for kind in _kinds(setting, rules)
        if kind in rules.constants.interval_beside
    ]
    return Beside(round(math.hypot(*(s.less for s in spread))), round(math.hypot(*(s.more for s in spread))))


def _kinds(setting: Setting, rules: Rules) -> Iterator[str]:
    model, layout = setting.model, setting.layout
    yield "any"
    yield setting.device.vendor
    if layout.tensor > 1:
        yield "ranks"
    if layout.pipeline > 1:
        yield "stages"
    if model.architecture.experts[0]:
        yield "experts"
    if has_states(model.architecture):
        yield "states"
    if is_profiled(setting, rules):
        yield "pictures"
