"""What llama.cpp allocates on each device: its layers, their cells, states of all slots, and a buffer to compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache import CacheKind
from service.domain.engines.llama_cpp.caches import kept_load
from service.domain.engines.llama_cpp.layers import device_loads, placement
from service.domain.engines.llama_cpp.pools import CellPool, Layout
from service.domain.engines.llama_cpp.refusals import check, fused
from service.domain.engines.ranks.held import Held, Part, Rank, Terms, given_reserve, held, part
from service.domain.engines.ranks.pool import up
from service.domain.engines.vllm.shapes import widths_of
from service.domain.errors import Fault, ValidationError
from service.domain.parallel import ONE_GPU
from service.domain.units import whole

if TYPE_CHECKING:
    from service.domain.engines.llama_cpp.layers import Placement
    from service.domain.engines.llama_cpp.rules import Rules
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad

_FLOAT_BYTES = 4
_ALL = -1


def hold(setting: Setting, rules: Rules) -> Held:
    """Quote a setting; raises QuoteError for what the build has no meaning for."""
    check(setting, rules)
    where = placed(setting, rules)
    windows = keeps_windows(setting, rules)
    loads = [kept_load(load, rules, windows=windows) for load in device_loads(setting, where)]
    ranks = tuple(
        _rank(setting, rules, load, output=load.index == where.output)
        for load in loads
        if load.weight_bytes or load.terms
    )
    if not any(term.growing_bytes for rank in ranks for term in rank.load.terms):
        raise ValidationError(Fault("/gpu_layers", "No layer with a cache is on a GPU, so there is nothing to quote."))
    return held(setting, ranks, _terms(setting, rules, where))


def placed(setting: Setting, rules: Rules) -> Placement:
    """The layers of each device."""
    asked = setting.asked.get("gpu_layers")
    split = tuple(setting.asked.get("tensor_split") or [1] * setting.scenario.layout.pipeline)
    layers = setting.scenario.model.architecture.layers
    return placement(layers, split, _ALL if asked is None else asked, output_first=rules.offload.output_first)


def keeps_windows(setting: Setting, rules: Rules) -> bool:
    """Whether windowed layers keep a window: by family, unless whole caches are asked (--swa-full)."""
    family = setting.scenario.model.architecture.model_type in rules.cells.windows
    return family and setting.flag("hybrid_cache", default=True)


def slots_of(setting: Setting, rules: Rules) -> int:
    """Slots of the server."""
    return int(setting.asked.get("parallel_slots") or rules.slots.slots)


def unified(setting: Setting, rules: Rules) -> bool:
    """Whether all slots share one buffer."""
    asked = setting.asked.get("parallel_slots") is not None
    return rules.slots.unified_where_asked if asked else rules.slots.unified


def pass_tokens(setting: Setting, rules: Rules) -> int:
    """Tokens of one pass (--ubatch-size)."""
    return int(setting.asked.get("max_batched_tokens") or rules.compute.ubatch_tokens)


def _rank(setting: Setting, rules: Rules, load: RankLoad, *, output: bool) -> Rank:
    budget, layout = setting.scenario.budget, _layout(setting, rules)
    states = sum(term.fixed_bytes for term in load.terms if term.spec.kind is CacheKind.RECURRENT)
    full = sum(term.growing_bytes for term in load.terms if term.window_tokens is None)
    windows = tuple((term.window_tokens, term.growing_bytes) for term in load.terms if term.window_tokens is not None)
    pool = CellPool(full, windows, states, layout, budget.pool_bytes is not None)
    kept = _states(states, layout.slots)
    parts = given_reserve(setting) or kept
    if budget.pool_bytes is None:
        parts = given_reserve(setting) or (*_modelled(setting, rules, output=output), *kept)
    left = budget.memory_bytes - budget.others_bytes - load.weight_bytes - sum(p.middle for p in parts)
    if budget.pool_bytes is not None:
        return Rank(load, parts, 0, budget.pool_bytes, max(0, budget.pool_bytes - left), pool)
    return Rank(load, parts, 0, left, max(0, -left), pool)


def _layout(setting: Setting, rules: Rules) -> Layout:
    return Layout(
        slots_of(setting, rules),
        unified(setting, rules),
        rules.cells.pad,
        rules.cells.window_pad,
        pass_tokens(setting, rules),
    )


def _states(state_bytes: int, slots: int) -> tuple[Part, ...]:
    size = slots * state_bytes
    note = f"recurrent state of {slots:,} slots in 32 bits"
    return (Part("state", size, size, size, note),) if size else ()


def _modelled(setting: Setting, rules: Rules, *, output: bool) -> tuple[Part, ...]:
    runtime = part("runtime", rules.constants.runtime, "device context and libraries")
    return (runtime, _compute(setting, rules, output=output))


def _compute(setting: Setting, rules: Rules, *, output: bool) -> Part:
    """The buffer of the larger of two graphs: logits of what is output, or the widest layer of one pass."""
    size = compute_bytes(setting, rules, output=output)
    rule, tokens = rules.compute, pass_tokens(setting, rules)
    note = f"buffer to compute {tokens:,} tokens at a time in"
    return Part("activations", whole(size * rule.low), size, whole(size * rule.high), note)


def compute_bytes(setting: Setting, rules: Rules, *, output: bool) -> int:
    """Bytes of the compute buffer of a device (accounting 4.2)."""
    scenario, tokens = setting.scenario, pass_tokens(setting, rules)
    architecture = scenario.model.architecture
    outputs = tokens if rules.compute.all_outputs else min(tokens, slots_of(setting, rules))
    logits = outputs * architecture.vocabulary_size if output else 0
    widths = widths_of(scenario.model, ONE_GPU)
    widest = max(widths.widest, widths.experts_active * (widths.experts_in + widths.experts_out))
    size = max(logits + tokens * architecture.hidden_size, tokens * (architecture.hidden_size + widest))
    if rules.compute.all_outputs and output:
        size = logits + tokens * architecture.hidden_size
    if not fused(setting, rules):
        size += tokens * architecture.query_heads * up(scenario.limit_tokens, rules.cells.pad)
    return _FLOAT_BYTES * size


def _terms(setting: Setting, rules: Rules, where: Placement) -> Terms:
    slots = slots_of(setting, rules)
    sharing = "one buffer that they share" if unified(setting, rules) else "a stream of its own for each"
    plural = "slot" if slots == 1 else "slots"
    found = [rules.note] if rules.note else []
    found.append(
        f"llama.cpp {rules.name}, {slots} {plural}, {sharing}, started with as large a context as memory holds"
    )
    found.append("the embedding table stays on the host")
    return Terms(rules.name, 1, slots, needs_limit=True, assumptions=tuple(found), warnings=_warnings(setting, where))


def _warnings(setting: Setting, where: Placement) -> tuple[str, ...]:
    layers = setting.scenario.model.architecture.layers
    here = sum(map(len, where.devices))
    if here == layers and where.output is not None:
        return ()
    host = f"{layers - here} of {layers} layers" if here < layers else "the output matrix"
    return (f"{host} stay on the host with their cache; times are those of a model wholly on GPUs.",)
