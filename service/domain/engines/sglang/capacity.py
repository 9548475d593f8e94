"""What a release of SGLang gives to its caches: a share of what was free before loading, less the weights.

pool = free after loading - free before loading x (1 - share) - what encoders are kept free for   (accounting 3.2)
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from service.domain.engines.prediction import drafted_bytes
from service.domain.engines.ranks.attention import attention_loads, attention_ranks
from service.domain.engines.ranks.drafts import draft_layers, drafted_cache_bytes
from service.domain.engines.ranks.held import Held, Part, Rank, Terms, as_measured, given_reserve, held, part
from service.domain.engines.ranks.padding import padded_bytes
from service.domain.engines.sglang.caches import (
    full_bytes,
    has_window_pool,
    kept_load,
    state_bytes,
    window_bytes,
    window_tokens,
)
from service.domain.engines.sglang.compressed import compressed_pool, loading_bytes, most_sequences
from service.domain.engines.sglang.drafting import compressed_drafter_bytes, draft_tokens
from service.domain.engines.sglang.layout import batch_for, layout_of, share_of, used_share
from service.domain.engines.sglang.pools import NO_DRAFTS, Drafts, StatePool, TokenPool
from service.domain.engines.sglang.refusals import check, page_tokens, takes_pages
from service.domain.engines.sglang.vision import reads_media
from service.domain.engines.vllm.shapes import rotary_elements

if TYPE_CHECKING:
    from service.domain.engines.ranks.pool import Pool
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.sglang.fraction import Batch, Layout
    from service.domain.engines.sglang.rules import Rules
    from service.domain.loads import RankLoad

_WIDE_BITS = 16


def pool_bytes(free_before: int, free_after: int, fraction: float) -> int:
    """The cache's budget from free memory before and after loading, as the engine prints both; never negative."""
    back = Fraction(free_before) * (1 - Fraction(str(fraction)))
    return max(0, int(free_after - back))


def hold(setting: Setting, rules: Rules) -> Held:
    """Quote a setting; raises QuoteError for what the release has no meaning for."""
    check(setting, rules)
    layout = layout_of(setting, rules)
    batch = batch_for(setting, rules, layout)
    share = used_share(setting, rules, share_of(setting, rules))
    learned = setting.scenario.budget.correction
    ranks = tuple(as_measured(_rank(setting, rules, load, layout, share), learned) for load in _loads(setting, rules))
    return held(setting, ranks, _terms(setting, rules, ranks, batch, share))


def windows_of(setting: Setting, rules: Rules) -> bool:
    """Whether windows have a pool of their own."""
    architecture = setting.scenario.model.architecture
    paged = takes_pages(setting, rules)
    return has_window_pool(architecture, rules, asked=setting.asked.get("hybrid_cache"), paged=paged)


def _loads(setting: Setting, rules: Rules) -> tuple[RankLoad, ...]:
    scenario, windows = setting.scenario, windows_of(setting, rules)
    loads = attention_loads(setting, attention_ranks(setting))
    extras = _extras(setting, rules)
    architecture = scenario.model.architecture
    kept = [kept_load(load, architecture, rules, scenario.cache, windows=windows) for load in loads]
    kept = [load._replace(weight_bytes=load.weight_bytes + extras[load.stage]) for load in kept]
    if rules.drafter.weights and draft_layers(setting, rules.constants.drafts):
        extra = _drafter_bytes(setting, rules)
        kept[-1] = kept[-1]._replace(weight_bytes=kept[-1].weight_bytes + extra)
    return tuple(kept)


def _drafter_bytes(setting: Setting, rules: Rules) -> int:
    scenario = setting.scenario
    if scenario.model.architecture.compressed:
        return compressed_drafter_bytes(setting, rules.compressed)
    return drafted_bytes(scenario.model.architecture, scenario.weights, scenario.layout.tensor)


def _extras(setting: Setting, rules: Rules) -> list[int]:
    """What loading adds to the weights of each stage."""
    if not setting.scenario.model.architecture.compressed:
        return [size + _tables(setting, rules) for size in padded_bytes(setting, rules.kernels)]
    known = rules.compressed
    padded = padded_bytes(setting, known.kernels)
    return [size + added for size, added in zip(padded, loading_bytes(setting, known), strict=True)]


def _tables(setting: Setting, rules: Rules) -> int:
    """Rotary tables, on every rank; none beside a weight size of the question's own."""
    if setting.scenario.weight_bytes is not None:
        return 0
    return rules.constants.rotary_element_bytes * rotary_elements(setting.scenario.model.architecture, 1)


def _rank(setting: Setting, rules: Rules, load: RankLoad, layout: Layout, share: float) -> Rank:
    budget = setting.scenario.budget
    pool = pool_of(setting, rules, load)
    if budget.pool_bytes is not None:
        parts = given_reserve(setting)
        taken = load.weight_bytes + pool.states(budget.pool_bytes) + sum(p.middle for p in parts)
        room = budget.memory_bytes - budget.others_bytes - taken
        return Rank(load, parts, 0, budget.pool_bytes, max(0, budget.pool_bytes - room), pool)
    before, after = _parts(setting, rules, layout)
    free = budget.memory_bytes - budget.others_bytes - sum(p.middle for p in before)
    back = max(0, free - int(free * Fraction(str(share))))
    left = free - load.weight_bytes - back - sum(p.middle for p in after)
    spread = round(load.weight_bytes * _weight_share(setting, rules)) + rules.constants.loading_bytes
    over = max(0, pool.states(max(0, left)) - left)
    return Rank(load, (*before, *after), back, left, over, pool, spread)


def _weight_share(setting: Setting, rules: Rules) -> float:
    kind = "media" if reads_media(setting.scenario.model) else "wide"
    return rules.constants.weight_spread[kind if setting.scenario.weights.element_bits >= _WIDE_BITS else "narrow"]


def _parts(setting: Setting, rules: Rules, layout: Layout) -> tuple[tuple[Part, ...], tuple[Part, ...]]:
    """What is taken before free memory is first measured, and what is kept out of the cache's budget."""
    given, constants = given_reserve(setting), rules.constants
    if given:
        return given, ()
    before = [part("runtime", constants.runtime, "device context before loading")]
    if layout.ranks > 1:
        link = "nvlink" if setting.gpu and setting.gpu.nvlink_bytes_per_second else "pcie"
        note = f"links between {layout.ranks} ranks over {link}"
        before.append(part("communication", constants.links[link], note))
    size = rules.encoder.input_bytes
    after = (
        (Part("encoder", size, size, size, "embedded pictures"),)
        if size and reads_media(setting.scenario.model)
        else ()
    )
    return tuple(before), after


def pool_of(setting: Setting, rules: Rules, load: RankLoad) -> Pool:
    """The pools of a rank."""
    scenario, exact = setting.scenario, setting.scenario.budget.pool_bytes is not None
    if scenario.model.architecture.compressed:
        return compressed_pool(setting, rules, load)
    full, window = full_bytes(load), window_bytes(load)
    if rules.drafter.cache and load.stage == scenario.layout.pipeline - 1:
        full += drafted_cache_bytes(load, draft_layers(setting, rules.constants.drafts))
    tokens = TokenPool(full, window, window_tokens(load), rules.windows.ratio, page_tokens(setting, rules), exact)
    states = state_bytes(load)
    if not states:
        return tokens
    cached = setting.flag("prefix_caching", default=True)
    each = rules.states.slots_each(scenario.model.architecture.model_type) if cached else 1
    asked = setting.asked.get("max_sequences_limit")
    slots = None if cached or asked is None else max(1, asked // attention_ranks(setting))
    return StatePool(tokens, states, rules.states, each, _drafts(setting, rules, states, each), slots)


def _drafts(setting: Setting, rules: Rules, state_bytes: int, slots_each: int) -> Drafts:
    """States of drafted tokens as the release keeps them."""
    tokens, kept = draft_tokens(setting, rules), rules.states.for_drafts
    if not tokens:
        return NO_DRAFTS
    most = _sequences_beside_drafter(setting, rules)
    if kept == "limit":
        return Drafts(fixed_bytes=most * tokens * state_bytes)
    return Drafts(tokens, slots_each, most) if kept == "running" else Drafts(tokens)


def _sequences_beside_drafter(setting: Setting, rules: Rules) -> int:
    asked = setting.asked.get("max_sequences_limit") or rules.constants.drafted_sequences
    return max(1, asked // attention_ranks(setting))


def _terms(setting: Setting, rules: Rules, ranks: tuple[Rank, ...], batch: Batch, share: float) -> Terms:
    copies = attention_ranks(setting)
    most = min(_running(setting, rules, rank) for rank in ranks)
    found = [rules.note] if rules.note else []
    found.append(
        f"SGLang {rules.name}, {share:.3f} of what is free before loading, prompts in chunks of {batch.tokens:,},"
        f" pages of {page_tokens(setting, rules):,}"
    )
    if copies > 1:
        found.append(f"{copies} ranks of attention data parallel, each with a cache of its own of the printed size")
    if setting.scenario.model.architecture.compressed:
        found.append(f"pools made for {most_sequences(setting, rules):,} sequences that run at once")
    elif setting.asked.get("max_sequences_limit") is None:
        # Not repeated as the question's: asked for, it limits graphs and states before there is a pool.
        found.append(f"at most {most * copies:,} sequences run at once, as the release limits them by its pool")
    warnings = _warnings(setting, rules, ranks, share)
    return Terms(rules.name, copies, most, needs_limit=False, assumptions=tuple(found), warnings=warnings)


def _warnings(setting: Setting, rules: Rules, ranks: tuple[Rank, ...], share: float) -> tuple[str, ...]:
    found = []
    if any(rank.load.terms and isinstance(rank.pool, StatePool) for rank in ranks):
        found.append("States are kept in 32 bits unless SGLang is told otherwise (--mamba-ssm-dtype).")
    if not share and setting.scenario.budget.pool_bytes is None:
        found.append(
            f"SGLang {rules.name} sets more aside for passes and graphs than the device has, which leaves no share for"
            " weights and caches unless memory_utilization gives one."
        )
    return tuple(found)


def _running(setting: Setting, rules: Rules, rank: Rank) -> int:
    """Sequences that one cache runs at most: asked, or by the tokens of the pool, and by the slots for states."""
    rule, tokens = rules.running, rank.pool.tokens(rank.pool_bytes)
    asked = setting.asked.get("max_sequences_limit")
    if setting.scenario.model.architecture.compressed:
        return min(most_sequences(setting, rules), tokens // rule.least_tokens_each)
    if asked is None:
        by_length = tokens * rule.factor // setting.scenario.limit_tokens
        most = max(rule.least, min(rule.most, by_length))
        if draft_tokens(setting, rules):
            most = _sequences_beside_drafter(setting, rules)
    else:
        most = max(1, asked // attention_ranks(setting))
    most = min(most, tokens // rule.least_tokens_each)
    if isinstance(rank.pool, StatePool):
        most = min(most, rank.pool.slots(rank.pool_bytes) // rank.pool.slots_each)
    return most
