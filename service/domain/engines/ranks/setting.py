"""What is asked of an engine: a scenario, a device, and the engine's own settings by name."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.fit import loads_of, whole_weight_bytes
from service.domain.loads import whole_weights
from service.domain.units import ceil_div

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.gpu import Gpu
    from service.domain.loads import RankLoad
    from service.domain.question import Question, Scenario


class Setting(NamedTuple):
    """All that the arithmetic needs of a question; a lever is the same with one thing changed."""

    scenario: Scenario
    gpu: Gpu | None
    asked: Mapping[str, Any]

    def flag(self, name: str, *, default: bool) -> bool:
        """A switch as asked, or the engine's default."""
        value = self.asked.get(name)
        return default if value is None else bool(value)

    def with_asked(self, **changed: Any) -> Setting:  # noqa: ANN401  # as the names' types
        """The same with settings of the engine's own changed."""
        return self._replace(asked=MappingProxyType({**self.asked, **changed}))

    def loads(self) -> tuple[RankLoad, ...]:
        """The ranks of the layout with the question's own weight size where it gives one."""
        return loads_of(self.scenario)

    def scaled(self, size: int) -> int:
        """Weights counted from shapes, in the proportion of what the question sets to what the model has."""
        scenario = self.scenario
        if scenario.weight_bytes is None and scenario.parameters is None:
            return size
        own = whole_weights(scenario.model, scenario.weights).bytes
        return ceil_div(size * whole_weight_bytes(scenario), own)


def setting_of(question: Question) -> Setting:
    """A resolved question as an engine's setting."""
    return Setting(question.scenario, question.gpu, question.echo.asked)
