"""The policy of SGLang as the catalog keeps it: topics of dated rules, resolved for a release once and then kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from service.domain.commands.flags import FlagTable
from service.domain.engines import plain
from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.plain import EngineDefaults, LengthRule
from service.domain.engines.ranks.drafts import draft_rule
from service.domain.engines.ranks.padding import ExpertKernel
from service.domain.engines.sglang.compressed_rules import CompressedTopic, read_compressed
from service.domain.engines.sglang.rules import (
    BatchRule,
    Constants,
    DrafterRule,
    EncoderRule,
    FractionRule,
    PageRule,
    PromptGraphRule,
    Rules,
    RunningRule,
    Shares,
    SizeReserve,
    StateRule,
    SumReserve,
    Tier,
    WindowRule,
    WorkspaceRule,
)
from service.domain.engines.types import cache_name, weight_name
from service.domain.engines.versions import Timeline, parse
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.catalog import Entry
    from service.domain.engines.plain import StepPolicy
    from service.domain.gpu import Gpu
    from service.domain.model import Model

_KEPT_RELEASES = 128
_WINDOW_SETS = ("families", "not_paged")
_ENCODER_SETS = ("unnamed", "as_decoder")
_PROMPT_GRAPH_SETS = ("never_with", "families", "media_families")


# get_context_length in hf_transformers_utils.py of 0.4.6, 0.5.5 and 0.5.10: positions that state what they were trained
# for are taken to be scaled already.
_LENGTHS = LengthRule(short_of_two=False, yarn_multiplies=False)


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic, oldest rule first."""

    batch: Dated[BatchRule]
    fraction: Dated[FractionRule]
    windows: Dated[WindowRule]
    states: Dated[StateRule]
    running: Dated[RunningRule]
    pages: Dated[PageRule]
    encoder: Dated[EncoderRule]
    prompt_graphs: Dated[PromptGraphRule]
    workspace: Dated[WorkspaceRule]
    drafter: Dated[DrafterRule]
    kernels: Dated[ExpertKernel]
    compressed: CompressedTopic


@dataclass(frozen=True, slots=True, eq=False)
class SglangEngine:
    """SGLang as the catalog describes it; `release` gives the rules of one of its releases."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    flags: FlagTable
    timeline: Timeline
    topics: Topics
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
            newest(topics.batch, release),
            newest(topics.fraction, release),
            newest(topics.windows, release),
            newest(topics.states, release),
            newest(topics.running, release),
            newest(topics.pages, release),
            newest(topics.encoder, release),
            newest(topics.prompt_graphs, release),
            newest(topics.workspace, release),
            newest(topics.drafter, release),
            tuple(kernel for since, kernel in topics.kernels if since <= release),
            topics.compressed.of(release),
            self.constants,
        )

    def release_defaults(self, asked: Mapping[str, Any]) -> EngineDefaults:
        """The release asked for, by default the newest; its share of memory follows from device, layout and model."""
        name = self.release(asked.get("engine_version")).name
        own = self.topics.compressed.meant
        return EngineDefaults(name, (), self.memory_basis, 1.0, None, _LENGTHS, compressed_cache=own)

    def weight_name(self, asked: str | None, model: Model, gpu: Gpu | None) -> str:
        """What the engine loads: its own reading of a plain width, and 16 bits of a 32-bit checkpoint."""
        return weight_name(asked, model, gpu, self.constants.weight_types)

    def cache_name(self, asked: str | None, model: Model, weight_name: str, gpu: Gpu | None) -> str:
        """The checkpoint's own scheme, else the type computed in; compressed attention has one of its own."""
        own = self.topics.compressed.own_type
        if own and model.architecture.compressed:
            return own
        return cache_name(asked, model, weight_name, gpu)


def from_facts(entry: Entry) -> SglangEngine:
    """Read the catalog entry of SGLang; raises CatalogFactError where a figure is missing."""
    facts = entry.facts
    try:
        return SglangEngine(
            name=entry.id,
            takes=frozenset(facts["takes"]),
            memory_basis=facts["memory_basis"],
            flags=FlagTable(facts.get("flags", {}), parse),
            timeline=Timeline(facts["releases"]["published"], facts["releases"]["read"], facts["name"]),
            topics=_topics(facts),
            constants=_constants(facts),
            step=plain.step_policy(facts),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error


def _topics(facts: Mapping[str, Any]) -> Topics:
    return Topics(
        batch=dated(facts["batch"], _batch),
        fraction=dated(facts["fraction"], _fraction),
        windows=dated(
            facts["windows"], lambda row: made(WindowRule, row, ratio=_ratio(row["ratio"]), **_sets(row, _WINDOW_SETS))
        ),
        states=dated(
            facts["states"],
            lambda row: made(StateRule, row, ratio=_ratio(row["ratio"]), tracked=frozenset(row["tracked"])),
        ),
        running=dated(facts["running"], lambda row: made(RunningRule, row)),
        pages=dated(facts["pages"], _pages),
        encoder=dated(facts["encoder"], lambda row: made(EncoderRule, row, **_sets(row, _ENCODER_SETS))),
        prompt_graphs=dated(
            facts["prompt_graphs"], lambda row: made(PromptGraphRule, row, **_sets(row, _PROMPT_GRAPH_SETS))
        ),
        workspace=dated(facts["workspace"], lambda row: made(WorkspaceRule, row, **_sets(row, ("latent_heads",)))),
        drafter=dated(facts["drafter"], lambda row: made(DrafterRule, row)),
        kernels=dated(facts["kernels"], lambda row: made(ExpertKernel, row)),
        compressed=read_compressed(facts.get("compressed")),
    )


def _sets(row: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, frozenset[Any]]:
    """Lists of a row as sets, those that it has."""
    return {name: frozenset(row[name]) for name in names if name in row}


def _ratio(value: float) -> tuple[int, int]:
    """A ratio as the two whole numbers that its decimal digits say."""
    return Fraction(str(value)).as_integer_ratio()


def _batch(row: Mapping[str, Any]) -> BatchRule:
    return made(BatchRule, row, tiers=tuple(made(Tier, tier) for tier in row["tiers"]))


def _fraction(row: Mapping[str, Any]) -> FractionRule:
    shares = row.get("shares")
    return made(
        FractionRule,
        row,
        sum_of=made(SumReserve, row["sum_of"]) if "sum_of" in row else None,
        by_size=tuple(made(SizeReserve, size) for size in row.get("by_size", ())),
        shares=made(Shares, shares, by_ranks=_pairs(shares["by_ranks"])) if shares else None,
    )


def _pairs(rows: list[Mapping[str, Any]]) -> tuple[tuple[int, float], ...]:
    return tuple((row["ranks"], row["fraction"]) for row in rows)


def _pages(row: Mapping[str, Any]) -> PageRule:
    return made(PageRule, row, by_backend={name: tuple(sizes) for name, sizes in row["by_backend"].items()})


def _constants(facts: Mapping[str, Any]) -> Constants:
    return Constants(
        runtime=tuple(facts["runtime"]["bytes"]),
        links={row["link"]: tuple(row["bytes"]) for row in facts["communication"]},
        indexed_narrow_bytes=facts["indexed"]["narrow_bytes"],
        cache_types=frozenset(facts["cache_types"]["names"]),
        weight_types=dict(facts["weights"]["types"]),
        drafts=draft_rule(facts["drafts"]),
        draft_tokens={"": facts["drafts"]["tokens"], **facts["drafts"]["family_tokens"]},
        drafted_sequences=facts["drafts"]["sequences"],
        weight_spread=dict(facts["weights"]["spread"]),
        loading_bytes=facts["weights"]["loading_bytes"],
        rotary_element_bytes=facts["rotary"]["element_bytes"],
        unshared=frozenset(facts["unshared"]["families"]),
    )
