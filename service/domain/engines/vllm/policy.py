"""The policy of vLLM as the catalog keeps it: topics of dated rules, resolved for a release once and then kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from service.domain.commands.flags import FlagTable
from service.domain.engines import plain
from service.domain.engines.dated import Dated, dated, made, newest
from service.domain.engines.plain import EngineDefaults, LengthRule
from service.domain.engines.versions import Release, Timeline, parse
from service.domain.engines.vllm.adapter_rules import AdapterTopic, read_adapters
from service.domain.engines.vllm.compressed_rules import CompressedTopic, read_compressed
from service.domain.engines.vllm.connectors import Connectors, connectors
from service.domain.engines.vllm.drafts import DrafterNames, drafter_names
from service.domain.engines.vllm.graph_rules import GraphsRule, read_graph
from service.domain.engines.vllm.media_rules import MediaTopics, TowersRule, topics_of, towers_of
from service.domain.engines.vllm.rules import (
    AtCapability,
    Backend,
    BatchRule,
    Beside,
    BlockRule,
    CacheType,
    Constants,
    EncoderRule,
    EngineRule,
    ExpertKernel,
    ExpertsRule,
    LinkRule,
    OffloadRule,
    Padding,
    PagingRule,
    Rules,
    RunnerRule,
    RuntimeRule,
    SamplerMethod,
    SamplerRule,
    Shares,
    Span,
    SpanAt,
    Tier,
)
from service.domain.errors import CatalogFactError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.catalog import Entry
    from service.domain.engines.plain import StepPolicy
    from service.domain.gpu import Gpu
    from service.domain.model import Model

_CORES = ("v0", "v1")
_KEPT_RELEASES = 128


@dataclass(frozen=True, slots=True)
class CoreTopics:
    """The topics that differ between the two cores."""

    batch: Dated[BatchRule]
    paging: Dated[PagingRule]
    sampler: Dated[SamplerRule]
    experts: Dated[ExpertsRule]
    runtime: Dated[RuntimeRule]
    links: Dated[LinkRule]
    offload: Dated[OffloadRule]


@dataclass(frozen=True, slots=True)
class Topics:
    """Every topic, oldest rule first."""

    engine: Dated[EngineRule]
    utilization: Dated[float]
    longest: Dated[LengthRule]
    typed_states: Dated[frozenset[str]]
    blocks: Dated[BlockRule]
    runner: Dated[RunnerRule]
    graphs: Dated[GraphsRule]
    towers: Dated[TowersRule]
    media: MediaTopics
    compiling: Dated[bool]
    paddings: Dated[Padding]
    adapters: AdapterTopic
    compressed: CompressedTopic
    cores: Mapping[str, CoreTopics]


class ReleaseRules:
    """The rules of one release; its `note` says where they are another release's."""

    __slots__ = ("cores", "engine", "longest", "name", "note", "release", "typed_states")

    def __init__(self, name: str, release: Release, note: str | None, topics: Topics, constants: Constants) -> None:
        """Resolve every topic for both cores."""
        self.name, self.release, self.note = name, release, note
        self.engine = newest(topics.engine, release)
        self.longest = newest(topics.longest, release)
        self.typed_states = newest(topics.typed_states, release)
        self.cores = {core: _rules(topics, core, release, constants) for core in _CORES}


@dataclass(frozen=True, slots=True, eq=False)
class VllmEngine:
    """vLLM as the catalog describes it; `release` gives the rules of one of its releases."""

    name: str
    takes: frozenset[str]
    memory_basis: str
    flags: FlagTable
    timeline: Timeline
    topics: Topics
    constants: Constants
    step: StepPolicy
    connectors: Connectors
    drafter_names: DrafterNames
    kept: dict[str, ReleaseRules] = field(default_factory=dict, repr=False)

    def release(self, text: str | None) -> ReleaseRules:
        """The rules of a release, the newest where None; raises ValidationError for a release that never was."""
        name = text or self.timeline.newest
        found = self.kept.get(name)
        if found is None:
            release = self.timeline.find(name)
            found = ReleaseRules(name, release, self.timeline.note(name, release), self.topics, self.constants)
            if len(self.kept) >= _KEPT_RELEASES:
                self.kept.clear()
            self.kept[name] = found
        return found

    def release_defaults(self, asked: Mapping[str, Any]) -> EngineDefaults:
        """The defaults of the release asked for, by default the newest; its reserve is modelled."""
        release = self.release(asked.get("engine_version"))
        utilization = release.cores[release.engine.core].utilization
        own = (release.longest, release.typed_states, self.topics.compressed.meant)
        return EngineDefaults(release.name, (), self.memory_basis, utilization, None, *own)

    def weight_name(self, asked: str | None, model: Model, gpu: Gpu | None) -> str:
        """What the engine loads: its own reading of a plain width, and 16 bits of a 32-bit checkpoint."""
        own = model.checkpoint_format
        if asked is None:
            return runnable(own, gpu)
        if asked == "fp8" and own.startswith("fp8"):
            return own
        return self.constants.weight_types.get(asked, asked)

    def cache_name(self, asked: str | None, model: Model, weight_name: str, gpu: Gpu | None) -> str:
        """The checkpoint's own scheme, else the type computed in; compressed attention has one of its own."""
        own = self.topics.compressed.own_type
        if own and model.architecture.compressed:
            return own
        if model.cache_format:
            return model.cache_format
        return weight_name if asked in plain.PLAIN_TYPES else runnable(model.compute_type, gpu)


def runnable(number: str, gpu: Gpu | None) -> str:
    """The 16-bit type that a plain type runs in on a device: fp16 where it does not compute in bf16."""
    lacks = gpu is not None and bool(gpu.peaks) and not gpu.runs("bf16")
    if number in {"fp32", "bf16"}:
        return "fp16" if lacks else "bf16"
    return number


def from_facts(entry: Entry) -> VllmEngine:
    """Read the catalog entry of vLLM; raises CatalogFactError where a figure is missing or a release is no release."""
    facts = entry.facts
    try:
        return VllmEngine(
            name=entry.id,
            takes=frozenset(facts["takes"]),
            memory_basis=facts["memory_basis"],
            flags=FlagTable(facts.get("flags", {}), parse),
            timeline=Timeline(facts["releases"]["published"], facts["releases"]["read"], facts["name"]),
            topics=_topics(facts),
            constants=_constants(facts),
            step=plain.step_policy(facts),
            connectors=connectors(facts["connectors"]),
            drafter_names=drafter_names(facts["drafts"]["names"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as error:
        raise CatalogFactError.at("/facts", f"The engine {entry.id} cannot be read: {error}.") from error


def _topics(facts: Mapping[str, Any]) -> Topics:
    return Topics(
        engine=dated(facts["engine"], _engine),
        utilization=dated(facts["utilization"], lambda row: float(row["fraction"])),
        longest=dated(facts["longest"], lambda row: LengthRule(row["short_of_two"], row["yarn_multiplies"])),
        typed_states=dated(facts["typed_states"], lambda row: frozenset(row["mixers"])),
        blocks=dated(facts["blocks"], _blocks),
        runner=dated(facts["runner"], _runner),
        graphs=dated(facts["graphs"], lambda row: made(GraphsRule, row)),
        towers=dated(facts["towers"], towers_of),
        media=topics_of(facts["media"]),
        compiling=dated(facts["compiling"], lambda row: bool(row["copies_tables"])),
        paddings=dated(facts["weights"]["padding"], lambda row: made(Padding, row)),
        adapters=read_adapters(facts.get("adapters", {})),
        compressed=read_compressed(facts.get("compressed")),
        cores={core: _core(facts, core) for core in _CORES},
    )


def _core(facts: Mapping[str, Any], core: str) -> CoreTopics:
    return CoreTopics(
        batch=dated(facts["batch"][core], _batch),
        paging=dated(facts["paging"][core], lambda row: made(PagingRule, row, windows=str(row["windows"]).lower())),
        sampler=dated(facts["sampler"]["used"][core], lambda row: made(SamplerRule, row)),
        experts=dated(facts["experts"][core], lambda row: made(ExpertsRule, row)),
        runtime=dated(facts["runtime"][core], _runtime),
        links=dated(facts["communication"][core], lambda row: made(LinkRule, row, span=Span(*row["bytes"]))),
        offload=dated(facts["offload"][core], lambda row: made(OffloadRule, row)),
    )


def _runtime(row: Mapping[str, Any]) -> RuntimeRule:
    by_capability = tuple(SpanAt(float(at["capability"]), Span(*at["bytes"])) for at in row.get("by_capability", ()))
    return made(RuntimeRule, row, span=Span(*row["bytes"]), by_capability=by_capability)


def _engine(row: Mapping[str, Any]) -> EngineRule:
    return made(EngineRule, row, falls_back_for_formats=_texts(row, "falls_back_for_formats"))


def _runner(row: Mapping[str, Any]) -> RunnerRule:
    sampling = made(SamplerMethod, row["sampling"], buffer_rows=0) if "sampling" in row else None
    return made(RunnerRule, row, model_types=_texts(row, "model_types"), sampling=sampling)


def _batch(row: Mapping[str, Any]) -> BatchRule:
    tiers = tuple(
        made(Tier, tier, named=_texts(tier, "named"), not_named=_texts(tier, "not_named"))
        for tier in row.get("tiers", ())
    )
    return made(BatchRule, row, tiers=tiers)


def _blocks(row: Mapping[str, Any]) -> BlockRule:
    sizes = tuple(row.get("sizes", ()))
    return BlockRule(row["tokens"], _by_capability(row["latent"], "tokens"), row["sparse_tokens"], sizes)


def _constants(facts: Mapping[str, Any]) -> Constants:
    forward, weights, backends = facts["forward"], facts["weights"], facts["backends"]
    return Constants(
        methods={name: made(SamplerMethod, row) for name, row in facts["sampler"]["methods"].items()},
        hidden_multiple=forward["hidden_multiple"],
        forward_spread={name: Shares(*pair) for name, pair in forward["spread"].items()},
        workspace=_by_capability(forward["workspace"], "bytes"),
        penalty_element_bytes=facts["penalties"]["element_bytes"],
        pipeline=Span(*facts["pipeline"]["bytes"]),
        link_from=float(facts["links"]["bytes_per_second"]),
        graph=read_graph(facts["graph"]),
        encoder=made(EncoderRule, facts["encoder"]),
        rotary_element_bytes=weights["rotary_element_bytes"],
        picture_rotary_stretch=weights["picture_rotary_stretch"],
        vocabulary_multiple=weights["vocabulary_multiple"],
        weight_types=dict(weights["types"]),
        mixed_formats=frozenset(weights["mixed_formats"]),
        weight_spread=dict(weights["spread"]),
        without_buffers=frozenset(facts["experts"]["without_buffers"]),
        expert_kernels={row["name"]: _kernel(row) for row in facts["experts"]["kernels"]["known"]},
        aligned_formats=frozenset(facts["experts"]["aligned"]["formats"]),
        aligned_capability=float(facts["experts"]["aligned"]["capability"]),
        unified=Span(*facts["unified"]["bytes"]),
        vendor_runtime={name: Span(*sizes) for name, sizes in facts["runtime"]["vendors"].items()},
        vendor_loading={name: Span(*sizes) for name, sizes in facts["runtime"]["loading"].items()},
        interval_share=facts["interval"]["share"],
        interval_beside={name: Beside(*pair) for name, pair in facts["interval"]["beside"].items()},
        own_drafts=frozenset(facts["drafts"]["own_layers"]),
        cache_types={row["name"]: _cache_type(row) for row in facts["cache_types"]},
        backends={row["name"]: made(Backend, row, sizes=tuple(row.get("sizes", ()))) for row in backends["known"]},
        backend_workspace=_by_capability(backends["workspace"], "bytes"),
        undescribed={name: row["why"] for row in facts.get("undescribed", ()) for name in row["model_types"]},
    )


def _kernel(row: Mapping[str, Any]) -> ExpertKernel:
    return made(ExpertKernel, row, formats=frozenset(row.get("formats", ())))


def _cache_type(row: Mapping[str, Any]) -> CacheType:
    return CacheType(row["since"], parse(row["since"]), row.get("scale_bytes", 0))


def _by_capability(rows: Sequence[Mapping[str, Any]], name: str) -> tuple[AtCapability, ...]:
    return tuple(AtCapability(float(row["capability"]), row[name]) for row in rows)


def _texts(row: Mapping[str, Any], name: str) -> tuple[str, ...]:
    return tuple(row.get(name, ()))


def _links(rows: Dated[LinkRule], release: Release) -> tuple[LinkRule, ...]:
    """Newer rows before older ones, and of one release those for fewer ranks first: the first that fits holds."""
    held = sorted((row for row in rows if row[0] <= release), key=lambda row: (row[1].ranks, -row[1].capability))
    return tuple(rule for _, rule in sorted(held, key=lambda row: row[0], reverse=True))


def _paddings(rows: Dated[Padding], release: Release) -> tuple[Padding, ...]:
    """By capability, and of one capability the newest row last."""
    held = sorted((row for row in rows if row[0] <= release), key=lambda row: row[0])
    return tuple(rule for _, rule in sorted(held, key=lambda row: row[1].capability))


def _rules(topics: Topics, core: str, release: Release, constants: Constants) -> Rules:
    own = topics.cores[core]
    return Rules(
        core=core,
        utilization=newest(topics.utilization, release),
        batch=newest(own.batch, release),
        blocks=newest(topics.blocks, release),
        paging=newest(own.paging, release),
        sampler=newest(own.sampler, release),
        experts=newest(own.experts, release),
        runner=newest(topics.runner, release),
        runtime=newest(own.runtime, release),
        links=_links(own.links, release),
        graphs=newest(topics.graphs, release),
        towers=newest(topics.towers, release),
        media=topics.media.rule(release),
        copies_tables=newest(topics.compiling, release),
        offload=newest(own.offload, release),
        paddings=_paddings(topics.paddings, release),
        adapters=topics.adapters.of(release),
        compressed=topics.compressed.of(release),
        constants=constants,
    )
