"""The policy of TensorRT-LLM as the catalog keeps it: topics of dated rules, resolved for a release once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.domain.commands.flags import FlagTable
from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.plain import EngineDefaults
from service.domain.engines.ranks.drafts import draft_rule
from service.domain.engines.tensorrt_llm.rules import (
    BatchRule,
    BlockRule,
    Constants,
    MissingCode,
    Rules,
    SamplerRule,
    StatePlace,
    StateRule,
)
from service.domain.engines.times import step_policy
from service.domain.engines.types import cache_name, weight_name
from service.domain.engines.versions import Release, Timeline, parse
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.catalog import Entry
    from service.domain.engines.times import StepPolicy
    from service.domain.gpu import Gpu
    from service.domain.model import Model

_KEPT_RELEASES = 128


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic, oldest rule first."""

    fraction: Dated[float]
    batch: Dated[BatchRule]
    blocks: Dated[BlockRule]
    sampler: Dated[SamplerRule]
    states: Dated[StateRule]


@dataclass(frozen=True, slots=True, eq=False)
class TensorrtLlmEngine:
    """TensorRT-LLM as the catalog describes it; `release` gives the rules of one of its releases."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    flags: FlagTable
    timeline: Timeline
    topics: Topics
    model_code: tuple[tuple[str, MissingCode], ...]
    constants: Constants
    step: StepPolicy
    kept: dict[str, Rules] = field(default_factory=dict, repr=False)

    def release(self, text: str | None) -> Rules:
        """The rules of a release, the newest where None; raises ValidationError for a release that never was."""
        name = text or self.timeline.newest
        found = self.kept.get(name)
        if found is None:
            found = self._resolved(name)
            if len(self.kept) >= _KEPT_RELEASES:
                self.kept.clear()
            self.kept[name] = found
        return found

    def _resolved(self, name: str) -> Rules:
        release, topics = self.timeline.find(name), self.topics
        return Rules(
            name,
            self.timeline.note(name, release),
            newest(topics.fraction, release),
            newest(topics.batch, release),
            newest(topics.blocks, release),
            newest(topics.sampler, release),
            newest(topics.states, release),
            {family: code for family, code in self.model_code if _lacks(release, code)},
            self.constants,
        )

    def release_defaults(self, asked: Mapping[str, Any]) -> EngineDefaults:
        """The defaults of the release asked for, by default the newest; its reserve is modelled."""
        rules = self.release(asked.get("engine_version"))
        return EngineDefaults(rules.name, (), self.memory_basis, rules.fraction, None)

    def weight_name(self, asked: str | None, model: Model, gpu: Gpu | None) -> str:
        """What the engine loads: its own reading of a plain width, and 16 bits of a 32-bit checkpoint."""
        return weight_name(asked, model, gpu, self.constants.weight_types)

    def cache_name(self, asked: str | None, model: Model, weight_name: str, gpu: Gpu | None) -> str:
        """The checkpoint's own scheme, else the type computed in."""
        return cache_name(asked, model, weight_name, gpu)


def from_facts(entry: Entry) -> TensorrtLlmEngine:
    """Read the catalog entry of TensorRT-LLM; raises CatalogFactError where a figure is missing."""
    facts = entry.facts
    try:
        topics = _topics(facts)
        return TensorrtLlmEngine(
            name=entry.id,
            takes=frozenset(facts["takes"]),
            memory_basis=facts["memory_basis"],
            flags=FlagTable(facts.get("flags", {}), parse),
            timeline=Timeline(facts["releases"]["published"], facts["releases"]["read"], facts["name"]),
            topics=topics,
            model_code=tuple((row["family"], _code(row, topics.states)) for row in facts.get("model_code", ())),
            constants=_constants(facts),
            step=step_policy(facts),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error


def _topics(facts: Mapping[str, Any]) -> Topics:
    return Topics(
        fraction=dated(facts["fraction"], lambda row: float(row["fraction"])),
        batch=dated(facts["batch"], lambda row: made(BatchRule, row)),
        blocks=dated(facts["blocks"], lambda row: BlockRule(row["tokens"], tuple(row["sizes"]))),
        sampler=dated(facts["sampler"], lambda row: SamplerRule(tuple(row["element_bytes"]))),
        states=dated(facts["states"], _state_rule),
    )


def _state_rule(row: Mapping[str, Any]) -> StateRule:
    place = StatePlace(row.get("place", StatePlace.BESIDE))
    families, wide = frozenset(row["families"]), frozenset(row.get("wide", ()))
    return made(StateRule, row, families=families, place=place, wide=wide)


def _code(row: Mapping[str, Any], states: Dated[StateRule]) -> MissingCode:
    since = row["since"]
    quoted = since is not None and row["family"] in newest(states, parse(since)).families
    return MissingCode(row["architecture"], since, quoted)


def _lacks(release: Release, code: MissingCode) -> bool:
    return code.since is None or release < parse(code.since)


def _constants(facts: Mapping[str, Any]) -> Constants:
    forward = facts["forward"]
    return Constants(
        runtime=tuple(facts["runtime"]["bytes"]),
        links={row["link"]: tuple(row["bytes"]) for row in facts["communication"]},
        hidden_multiple=forward["hidden_multiple"],
        element_bytes=forward["element_bytes"],
        forward_low=float(forward["low"]),
        forward_high=float(forward["high"]),
        cache_types=frozenset(facts["cache_types"]["names"]),
        weight_types=dict(facts["weights"]["types"]),
        drafts=draft_rule(facts["drafts"]),
    )
