"""What profiling subtracts beside the weights, part by part, each as the evidence spreads it (accounting 2.7, 2.8).

The larger of one pass over a full batch and of one sampling step over all sequences counts, not their sum; buffers
that outlive the pass add to either.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from service.domain.engines.vllm.activations import (
    Peak,
    installed_sampler,
    latent_length,
    peak_of,
    sampler_of,
    second_runner,
)
from service.domain.engines.vllm.beside import beside_of
from service.domain.engines.vllm.graphs import graphs_of
from service.domain.engines.vllm.media import (
    asked_of,
    is_profiled,
    item_tokens,
    profiled_tokens,
    stands_whole,
    tokens_of_a_rank,
)
from service.domain.engines.vllm.media import follows_length as media_follows_length
from service.domain.engines.vllm.pages import unpaged_state_bytes
from service.domain.engines.vllm.rules import NOTHING, NOTHING_BESIDE, Beside, Shares, Span
from service.domain.engines.vllm.setting import has_latent, has_states
from service.domain.engines.vllm.shapes import tower_of
from service.domain.memo import remembered
from service.domain.units import ceil_div, whole

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.domain.engines.vllm.rules import Rules
    from service.domain.engines.vllm.setting import Batch, Setting
    from service.domain.ledger import Correction

_HALF_BYTES = 2
_FLASH_CAPABILITY = 8.0
_MOST_RANKS = 64
_STATE_SPREAD = 0.1
_INNER_HELD = 2


class Part(NamedTuple):
    """One part of the reserve: its name in the ledger behind `reserve.`, its size, and how that came about."""

    name: str
    span: Span
    note: str
    source: str = "modelled"


class Reserve(NamedTuple):
    """All parts of one rank, their sum, by how much it may be smaller or larger, and a cache beside what parts say."""

    parts: tuple[Part, ...]
    total: int
    less: float
    more: float
    beside: Beside = NOTHING_BESIDE


def reserve_of(setting: Setting, rules: Rules, batch: Batch, *, stage: int, last: bool) -> Reserve:
    """The reserve of a rank on that pipeline stage, remembered with the model."""
    asked, device, layout = setting.asked, setting.device, setting.layout
    length = setting.limit_tokens if follows_length(setting, rules) else 0
    key = (
        "vllm-reserve", rules, setting.weights, layout.tensor, layout.pipeline, layout.data, layout.expert,
        device.capability, device.link_bytes_per_second, device.unified, device.vendor, batch, stage, last, length,
        setting.cache.name, asked.speculative_method,
        asked.enforce_eager, asked.speculative_tokens, asked.sampler_backend, asked.attention_backend,
        asked.moe_backend, asked_of(asked), asked.max_loras, asked.max_lora_rank,
        asked.graph_mode, asked.graph_sizes, asked.graph_size_limit,
    )  # fmt: skip
    found: Reserve = remembered(setting.model, key, lambda: _reserve(setting, rules, batch, stage=stage, last=last))
    return found


def follows_length(setting: Setting, rules: Rules) -> bool:
    """Whether the reserve follows the longest sequence: what latent attention gathers in, and the largest film, do."""
    profiled = bool(tower_of(setting.model).hidden) and media_follows_length(setting, rules)
    return profiled or has_latent(setting.model.architecture)


def length_kept_for(setting: Setting, rules: Rules, batch: Batch) -> tuple[int, ...]:
    """All that the reserve follows of the longest sequence: starts for which it is the same keep the same."""
    if setting.model.architecture.compressed:
        return (setting.limit_tokens,)
    gathered = latent_length(setting.limit_tokens) if has_latent(setting.model.architecture) else 0
    if not is_profiled(setting, rules):
        return (gathered,)
    return gathered, profiled_tokens(setting, rules, batch), item_tokens(setting, rules)


def _reserve(setting: Setting, rules: Rules, batch: Batch, *, stage: int, last: bool) -> Reserve:
    peak = peak_of(setting, rules, batch, stage=stage, last=last)
    parts = (
        _runtime(setting, rules),
        *_activations(peak, rules, batch, setting),
        _encoder(setting, rules, batch, peak),
        _states(setting, rules, batch),
        _graphs(setting, rules, batch),
        _communication(setting, rules),
    )
    return summed(part for part in parts if part.span.high)._replace(beside=beside_of(setting, rules))


def summed(parts: Iterable[Part]) -> Reserve:
    """The parts with their sum; how far it may be off takes them as independent of each other."""
    held = tuple(parts)
    less = math.hypot(*(p.span.middle - p.span.low for p in held))
    more = math.hypot(*(p.span.high - p.span.middle for p in held))
    return Reserve(held, sum(p.span.middle for p in held), less, more)


def corrected(reserve: Reserve, correction: Correction) -> Reserve:
    """The reserve with what probes measured beyond it: more of it as runtime, less of it off the largest parts."""
    if not correction.probes:
        return reserve
    beyond = max(correction.bytes, -reserve.total)
    parts = {part.name: part for part in reserve.parts}
    for name in ["runtime", *(part.name for part in sorted(reserve.parts, key=_size, reverse=True))]:
        part = parts.get(name, Part(name, NOTHING, ""))
        moved = max(beyond, -part.span.middle)
        if moved:
            note = f"{part.note}, {correction.note}".removeprefix(", ")
            parts[name] = Part(name, Span(*(max(0, size + moved) for size in part.span)), note, "calibrated")
        beyond -= moved
    return reserve._replace(parts=tuple(parts.values()), total=sum(map(_size, parts.values())))


def _size(part: Part) -> int:
    return part.span.middle


def spread(size: int, less: float, more: float) -> Span:
    """A size that may be smaller or larger by those shares of it."""
    return Span(size - whole(size * less), size, size + whole(size * more))


def _activations(peak: Peak, rules: Rules, batch: Batch, setting: Setting) -> tuple[Part, Part]:
    sampling = peak.sampler + peak.beside_sampler
    warm = max(peak.forward, sampling) + peak.kept
    if peak.compiling > warm:
        note = f"a first start tries kernels on a copy of the table of words; {warm:,} B where they are compiled before"
        return Part("activations", _cold(peak.compiling, warm, rules), note), Part("sampler", NOTHING, "")
    if peak.forward >= sampling:
        note = f"one pass over {batch.tokens:,} tokens, larger than the sampler's {sampling:,} B"
        pass_ = Part("activations", spread(peak.forward + peak.kept, *_pass_shares(setting, rules)), note)
        return pass_, Part("sampler", NOTHING, "")
    return _sampled(peak, rules, batch, setting)


def _sampled(peak: Peak, rules: Rules, batch: Batch, setting: Setting) -> tuple[Part, Part]:
    """What stands beside the sampler, and the sampler itself, where a sampling step is larger than the pass."""
    name, method = sampler_of(setting, rules)
    vocabulary = setting.model.architecture.vocabulary_size
    held = spread(peak.beside_sampler + peak.kept, *rules.constants.forward_spread[rules.core])
    return (
        Part("activations", held, f"hidden states of {batch.tokens:,} tokens and buffers that outlive the pass"),
        Part(
            "sampler",
            spread(peak.sampler, method.spread, method.spread),
            f"{name} sampler, {batch.profiled:,} sequences x {vocabulary:,} words x {method.element_bytes:g} B"
            + _otherwise(setting, rules),
        ),
    )


def _cold(compiling: int, warm: int, rules: Rules) -> Span:
    """What a first start holds; the interval, which takes a share of the way to either end, holds later starts too."""
    less, more = rules.constants.forward_spread[rules.core]
    way = (compiling - warm * (1 - less)) / rules.constants.interval_share
    return Span(max(0, compiling - whole(way)), compiling, compiling + whole(compiling * more))


def _otherwise(setting: Setting, rules: Rules) -> str:
    other = installed_sampler(setting, rules)
    if other is None:
        return ""
    return f"; where {other} is installed it samples with {rules.constants.methods[other].element_bytes:g} B"


def _pass_shares(setting: Setting, rules: Rules) -> Shares:
    shares, capability = rules.constants.forward_spread, setting.device.capability
    if setting.model.architecture.compressed:
        facts = rules.compressed.memory
        return Shares(facts.less, facts.more)
    if setting.model.architecture.experts[0]:
        return shares["experts"]
    return shares["older" if capability is None or capability < _FLASH_CAPABILITY else rules.core]


def _runtime(setting: Setting, rules: Rules) -> Part:
    layout, constants = setting.layout, rules.constants
    piped = layout.pipeline > 1 and layout.tensor == 1
    span = constants.pipeline if piped else rules.runtime.span_of(setting.device.capability)
    span = constants.vendor_runtime.get(setting.device.vendor, span)
    note = "device context and libraries outside PyTorch"
    if setting.device.unified:
        span = _sum(span, constants.unified)
        note += ", and what the process takes of the memory that the host shares"
    loading = constants.vendor_loading.get(setting.device.vendor)
    if loading and rules.runtime.adds_loading:
        span = _sum(span, loading)
        note += ", and what loading takes beside the weights, which are measured by the device's use"
    return Part("runtime", span, note)


def _sum(*spans: Span) -> Span:
    return Span(*map(sum, zip(*spans, strict=True)))


def _encoder(setting: Setting, rules: Rules, batch: Batch, peak: Peak) -> Part:
    """Inputs and outputs of the encoder are held throughout; its own pass counts where it is the largest."""
    rule = rules.constants.encoder
    if not is_profiled(setting, rules):
        return Part("encoder", NOTHING, "")
    tokens = profiled_tokens(setting, rules, batch)
    each, patch_bytes = rule.patches_of(setting.model.architecture.model_type)
    patches = tokens * each
    held = tokens * setting.model.architecture.hidden_size * _HALF_BYTES + patches * patch_bytes
    own = _encoder_pass(setting, rules, tokens)
    size = held + max(0, own - max(peak.forward, peak.sampler + peak.beside_sampler))
    apart = whole(own * rule.apart) if rules.core == "v0" else 0
    return Part(
        "encoder",
        Span(whole(size * rule.low), size, whole(size * rule.high) + apart),
        f"pictures of {tokens:,} tokens",
    )


def _encoder_pass(setting: Setting, rules: Rules, tokens: int) -> int:
    """Bytes of the pass over so many tokens of pictures, and of their exchange where each rank embeds its own."""
    tower, rule, ranks = tower_of(setting.model), rules.constants.encoder, setting.layout.tensor
    architecture, undivided = setting.model.architecture, stands_whole(setting, rules)
    own = tokens_of_a_rank(tokens, item_tokens(setting, rules), ranks) if undivided else tokens
    each, _ = rule.patches_of(architecture.model_type)
    at_once = min(own, rule.at_once_tokens.get(architecture.model_type, own))
    # The inner width before and after the activation, which no kernel of an encoder computes in place.
    inner = tower.inner if undivided else ceil_div(tower.inner, ranks)
    width = _INNER_HELD * inner + rules.constants.hidden_multiple * tower.hidden
    gathered = own * ranks * architecture.hidden_size if undivided else 0
    return max(at_once * each * width, gathered) * _HALF_BYTES


def _states(setting: Setting, rules: Rules, batch: Batch) -> Part:
    """What is kept for every sequence: counts for penalties, or recurrent state where it is not paged."""
    architecture = setting.model.architecture
    if second_runner(setting, rules):
        vocabulary = architecture.vocabulary_size
        size = whole(rules.constants.penalty_element_bytes * batch.sequences * vocabulary)
        note = f"penalty counts of {batch.sequences:,} sequences x {vocabulary:,} words"
        return Part("state", Span(size, size, size), note)
    if not rules.paging.states and has_states(architecture):
        size = batch.sequences * unpaged_state_bytes(architecture.caches, setting.layout.tensor)
        note = f"recurrent state of {batch.sequences:,} sequences outside the pages"
        return Part("state", spread(size, _STATE_SPREAD, _STATE_SPREAD), note)
    return Part("state", NOTHING, "")


def _graphs(setting: Setting, rules: Rules, batch: Batch) -> Part:
    estimated = rules.runner.estimates_graphs or not second_runner(setting, rules)
    if setting.asked.enforce_eager or not rules.graphs.subtracted or not estimated:
        return Part("graphs", NOTHING, "")
    span, note = graphs_of(setting, rules, batch)
    return Part("graphs", span, note)


def _communication(setting: Setting, rules: Rules) -> Part:
    layout, capability = setting.layout, setting.device.capability or 0
    ranks = layout.tensor * (layout.data if layout.expert else 1)
    link = "nvlink" if setting.device.link_bytes_per_second >= rules.constants.link_from else "pcie"
    fused = layout.data * layout.pipeline == 1 and not setting.asked.enforce_eager
    for row in rules.links if ranks > 1 else ():
        fits = row.link == link and row.capability <= capability and row.ranks >= min(ranks, _MOST_RANKS)
        if fits and (fused or not row.fused):
            return Part("communication", row.span, f"buffers between {ranks} ranks over {link}")
    return Part("communication", NOTHING, "")
