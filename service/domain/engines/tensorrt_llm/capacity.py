"""What a release of TensorRT-LLM gives to its cache: a share of what is free after weights and a full pass.

tokens = (memory - weights - runtime - pass - sampler) x fraction // bytes of a token, in whole blocks (accounting 5)
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, NamedTuple

from service.domain.cache.base import CacheKind
from service.domain.cache.full import FullCache
from service.domain.cache.recurrent import RecurrentCache
from service.domain.engines.prediction import drafted_bytes
from service.domain.engines.ranks.attention import attention_loads, attention_ranks
from service.domain.engines.ranks.drafts import draft_layers, drafted_cache_bytes
from service.domain.engines.ranks.held import Held, Part, Rank, Terms, as_measured, given_reserve, held, part
from service.domain.engines.tensorrt_llm.pools import BlockPool
from service.domain.engines.tensorrt_llm.refusals import check
from service.domain.engines.tensorrt_llm.rules import StatePlace
from service.domain.engines.tensorrt_llm.state_pool import StatePool
from service.domain.engines.vllm.shapes import widths_of
from service.domain.errors import Fault, NotSupported
from service.domain.units import up, whole

if TYPE_CHECKING:
    from service.domain.engines.ranks.setting import Setting
    from service.domain.engines.tensorrt_llm.rules import Rules, StateRule
    from service.domain.loads import CacheTerm, RankLoad

_STATES_WARNING = (
    "States are kept for max_sequences_limit sequences: more than those never run, whatever fits beside them."
)
_PLACES = {
    StatePlace.BESIDE: "beside the cache's share",
    StatePlace.SHARE: "out of the cache's share, the rest of which is for tokens",
    StatePlace.POOL: "in a pool of the cache, which is divided as sequences of half the longest length would fill it",
}
_WIDE = 4
_WINDOWS = frozenset({CacheKind.SLIDING, CacheKind.CHUNKED})


class Batch(NamedTuple):
    """Tokens and sequences of one batch."""

    tokens: int
    sequences: int


def hold(setting: Setting, rules: Rules) -> Held:
    """Quote a setting; raises QuoteError for what the release has no meaning for."""
    check(setting, rules)
    batch = batch_of(setting, rules)
    learned = setting.scenario.budget.correction
    ranks = tuple(as_measured(_rank(setting, rules, load, batch), learned) for load in _loads(setting, rules))
    return held(setting, ranks, _terms(setting, rules, batch))


def batch_of(setting: Setting, rules: Rules) -> Batch:
    """The batch as asked, or the release's."""
    asked = setting.asked
    return Batch(
        asked.get("max_batched_tokens") or rules.batch.tokens,
        asked.get("max_sequences_limit") or rules.batch.sequences,
    )


def block_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens of a block."""
    return int(setting.asked.get("block_tokens") or rules.blocks.tokens)


def keeps_windows(setting: Setting) -> bool:
    """Whether windows have pools of their own: only where they are asked for (max_attention_window)."""
    return setting.flag("hybrid_cache", default=False)


def kept_load(load: RankLoad, rules: Rules, *, windows: bool) -> RankLoad:
    """The load with windows only where they have pools, states in the release's type."""
    return load._replace(terms=tuple(_kept(term, rules, windows=windows) for term in load.terms))


def _kept(term: CacheTerm, rules: Rules, *, windows: bool) -> CacheTerm:
    spec = term.spec
    if isinstance(spec, RecurrentCache):
        own = _typed(spec, rules.states)
        return replace(term, spec=own, fixed_bytes=term.layers * own.fixed_bytes)
    if windows or spec.kind not in _WINDOWS:
        return term
    full = FullCache(spec.kv_heads, spec.key_width, spec.value_width)
    return replace(term, spec=full, window_tokens=None)


def _typed(spec: RecurrentCache, rule: StateRule) -> RecurrentCache:
    """In the release's type; the state in 32 bits, or in the one that the checkpoint names for it, where that holds."""
    size = rule.element_bytes
    state = _WIDE if spec.mixer in rule.wide else size
    if rule.named and spec.state_type_named:
        state = spec.state_element_bytes
    return replace(spec, state_element_bytes=state, conv_element_bytes=size)


def fraction_of(setting: Setting, rules: Rules) -> float:
    """The share of free memory, as asked or the release's."""
    asked: float | None = setting.asked.get("memory_utilization")
    return rules.fraction if asked is None else asked


def _loads(setting: Setting, rules: Rules) -> list[RankLoad]:
    scenario = setting.scenario
    loads = attention_loads(setting, attention_ranks(setting))
    kept = [kept_load(load, rules, windows=keeps_windows(setting)) for load in loads]
    if draft_layers(setting, rules.constants.drafts):
        extra = drafted_bytes(scenario.model.architecture, scenario.weights, scenario.layout.tensor)
        kept[-1] = kept[-1]._replace(weight_bytes=kept[-1].weight_bytes + extra)
    return kept


def _rank(setting: Setting, rules: Rules, load: RankLoad, batch: Batch) -> Rank:
    budget = setting.scenario.budget
    pool, given = pool_of(setting, rules, load, batch), given_reserve(setting)
    parts = given or (() if isinstance(pool, StatePool) else _states(setting, rules, load, batch))
    if not given and budget.pool_bytes is None:
        parts = (*_modelled(setting, rules, load, batch), *parts)
    free = budget.memory_bytes - budget.others_bytes - load.weight_bytes - sum(p.middle for p in parts)
    if budget.pool_bytes is not None:
        return Rank(load, parts, 0, budget.pool_bytes, max(0, budget.pool_bytes - free), pool)
    share = Fraction(str(fraction_of(setting, rules)))
    left = int(free * share) if free > 0 else free
    return Rank(load, parts, max(0, free - left), left, max(0, pool.states(max(0, left)) - left), pool)


def pool_of(setting: Setting, rules: Rules, load: RankLoad, batch: Batch) -> BlockPool | StatePool:
    """The pools of a rank: blocks alone, or states out of the same share beside them."""
    blocks, size = _blocks(setting, rules, load), _state_bytes(setting, rules, load, batch)
    if rules.states.place is StatePlace.BESIDE or setting.scenario.budget.pool_bytes is not None or not size:
        return blocks
    if rules.states.place is StatePlace.SHARE:
        return StatePool(blocks, size)
    half = up(max(1, setting.scenario.limit_tokens // 2), blocks.block_tokens)
    sequences = batch.sequences * _stages(setting, rules)
    return StatePool(blocks, size, sequences * half * sum(each for _, each in blocks.windows))


def _blocks(setting: Setting, rules: Rules, load: RankLoad) -> BlockPool:
    """The pools of tokens, the widest last."""
    scenario = setting.scenario
    sizes: dict[int, int] = defaultdict(int)
    for term in load.terms:
        if term.growing_bytes:
            window = scenario.limit_tokens if term.window_tokens is None else term.window_tokens
            sizes[min(window, scenario.limit_tokens)] += term.growing_bytes
    if not sizes:
        detail = f"Stage {load.stage} of {scenario.layout.pipeline} has no layer that keeps a cache of its own."
        raise NotSupported(Fault("/pipeline_parallel", detail))
    if load.stage == scenario.layout.pipeline - 1:
        sizes[max(sizes)] += drafted_cache_bytes(load, draft_layers(setting, rules.constants.drafts))
    return BlockPool(tuple(sorted(sizes.items())), block_tokens(setting, rules), scenario.budget.pool_bytes is not None)


def _stages(setting: Setting, rules: Rules) -> int:
    """Batches whose states a rank keeps."""
    return setting.scenario.layout.pipeline if rules.states.stages else 1


def _slots(setting: Setting, rules: Rules, batch: Batch) -> int:
    """States that a rank keeps; padding has some of its own, and an idle rank's dummy in attention data parallel."""
    dummies = 1 if rules.states.spare and attention_ranks(setting) > 1 else 0
    return batch.sequences * _stages(setting, rules) + rules.states.spare + dummies


def _state_bytes(setting: Setting, rules: Rules, load: RankLoad, batch: Batch) -> int:
    each = sum(term.fixed_bytes for term in load.terms if term.spec.kind is CacheKind.RECURRENT)
    return _slots(setting, rules, batch) * each


def _states(setting: Setting, rules: Rules, load: RankLoad, batch: Batch) -> tuple[Part, ...]:
    """States of a full batch, which are there before the cache is sized."""
    size = _state_bytes(setting, rules, load, batch)
    note = f"recurrent state of {_slots(setting, rules, batch):,} sequences"
    return (Part("state", size, size, size, note),) if size else ()


def _modelled(setting: Setting, rules: Rules, load: RankLoad, batch: Batch) -> tuple[Part, ...]:
    constants, layout = rules.constants, setting.scenario.layout
    parts = [
        part("runtime", constants.runtime, "device context and libraries"),
        _pass(setting, rules, batch),
    ]
    if load.stage == layout.pipeline - 1:
        parts.append(_sampler(setting, rules, batch))
    ranks = layout.tensor * layout.pipeline
    if ranks > 1:
        link = "nvlink" if setting.gpu and setting.gpu.nvlink_bytes_per_second else "pcie"
        parts.append(part("communication", constants.links[link], f"links between {ranks} ranks over {link}"))
    return tuple(parts)


def _pass(setting: Setting, rules: Rules, batch: Batch) -> Part:
    constants = rules.constants
    shape = widths_of(setting.scenario.model, setting.scenario.layout)
    experts = shape.experts_active * (shape.experts_in + shape.experts_out)
    each = constants.hidden_multiple * shape.hidden + max(shape.widest, experts)
    size = constants.element_bytes * batch.tokens * each
    low, high = whole(size * constants.forward_low), whole(size * constants.forward_high)
    return Part("activations", low, size, high, f"one pass over {batch.tokens:,} tokens")


def _sampler(setting: Setting, rules: Rules, batch: Batch) -> Part:
    vocabulary = setting.scenario.model.architecture.vocabulary_size
    low, middle, high = (whole(each * batch.sequences * vocabulary) for each in rules.sampler.element_bytes)
    note = f"buffers of {batch.sequences:,} sequences x {vocabulary:,} words"
    return Part("sampler", low, middle, high, note)


def _terms(setting: Setting, rules: Rules, batch: Batch) -> Terms:
    found = [rules.note] if rules.note else []
    share = fraction_of(setting, rules)
    found.append(
        f"TensorRT-LLM {rules.name}, {share:g} of what is free after loading and a pass, batches of {batch.tokens:,}"
        f" tokens and {batch.sequences:,} sequences, blocks of {block_tokens(setting, rules)} tokens"
    )
    if attention_ranks(setting) > 1:
        found.append("attention data parallel: every rank has a cache of its own of the printed size")
    recurrent = CacheKind.RECURRENT in {owners.spec.kind for owners in setting.scenario.model.architecture.caches}
    if recurrent and rules.note:
        found.append(f"recurrent states as TensorRT-LLM {rules.states.since} has them, {_PLACES[rules.states.place]}")
    warnings = (_STATES_WARNING,) if recurrent else ()
    most, copies = batch.sequences, attention_ranks(setting)
    return Terms(rules.name, copies, most, needs_limit=False, assumptions=tuple(found), warnings=warnings)
