"""What llama.cpp allocates on each device: its layers, their cells, states of all slots, and a buffer to compute in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.domain.cache.base import CacheKind
from service.domain.engines.llama_cpp.caches import kept_load
from service.domain.engines.llama_cpp.compute import Pass, compute_bytes, mask_cells
from service.domain.engines.llama_cpp.layers import (
    HostWork,
    device_loads,
    has_experts,
    host_bytes,
    host_work,
    placement,
)
from service.domain.engines.llama_cpp.pools import CellPool, Layout
from service.domain.engines.llama_cpp.refusals import check, fused
from service.domain.engines.llama_cpp.tensors import hosted_modules
from service.domain.engines.ranks.held import Held, Part, Rank, Terms, given_reserve, held, part
from service.domain.errors import Fault, ValidationError
from service.domain.units import up, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from service.domain.engines.llama_cpp.layers import Placement
    from service.domain.engines.llama_cpp.rules import Rules
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad

_ALL = -1
_BUFFER = "activations"
_PLACING = ("gpu_layers", "tensor_split", "cpu_expert_layers", "cpu_tensors", "kv_cache_bytes")
"""Names that say what goes where; beside them --fit changes nothing."""
_SIXTEEN_BITS = "fp16"


def hold(setting: Setting, rules: Rules) -> Held:
    """Quote a setting; raises QuoteError for what the build has no meaning for."""
    check(setting, rules)
    where = placed(setting, rules)
    windows = keeps_windows(setting, rules)
    loads = [kept_load(load, rules, windows=windows) for load in device_loads(setting, where)]
    ranks = tuple(_rank(setting, rules, load, where) for load in loads if load.weight_bytes or load.terms)
    if not any(term.growing_bytes for rank in ranks for term in rank.load.terms):
        raise ValidationError(Fault("/gpu_layers", "No layer with a cache is on a GPU, so there is nothing to quote."))
    return held(setting, ranks, _terms(setting, rules, where, ranks))


def placed(setting: Setting, rules: Rules, *, everything: bool = False) -> Placement:
    """The layers of each device; with `everything` also of those that stay on the host."""
    asked = None if everything else setting.asked.get("gpu_layers")
    layers, split = setting.scenario.model.architecture.layers, shares(setting, rules)
    return placement(layers, split, _ALL if asked is None else asked, output_first=rules.offload.output_first)


def shares(setting: Setting, rules: Rules) -> tuple[float, ...]:
    """What of the layers goes to each device: as asked, else by the memory that is free there when a model is loaded.

    By then a device has its context, which is taken of what the runtime is quoted with. Where none has anything free,
    or all are alike, they share equally.
    """
    scenario = setting.scenario
    split = setting.asked.get("tensor_split")
    if split:
        return tuple(split)
    context = rules.constants.runtime[1]
    free = tuple(max(0, each.memory_bytes - each.others_bytes - context) for each in scenario.budgets)
    return free if any(free) else (1,) * scenario.layout.pipeline


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


def _rank(setting: Setting, rules: Rules, load: RankLoad, where: Placement) -> Rank:
    budget, layout = setting.scenario.budget_of(load.index), _layout(setting, rules)
    states = sum(term.fixed_bytes for term in load.terms if term.spec.kind is CacheKind.RECURRENT)
    full = sum(term.growing_bytes for term in load.terms if term.window_tokens is None)
    windows = tuple((term.window_tokens, term.growing_bytes) for term in load.terms if term.window_tokens is not None)
    pool = CellPool(full, windows, states, layout, budget.pool_bytes is not None)
    kept = _states(states, layout.slots)
    parts = given_reserve(setting) or kept
    if budget.pool_bytes is None:
        parts = given_reserve(setting) or (*_modelled(setting, rules, load, where), *kept)
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


def _modelled(setting: Setting, rules: Rules, load: RankLoad, where: Placement) -> tuple[Part, ...]:
    """What the device has beside weights and cells; the buffer is that of a context of the longest sequence."""
    rule, run = rules.compute, pass_of(setting, rules, load, where)
    size = compute_bytes(setting.scenario.model, rule, run, fused=fused(setting, rules))
    note = f"buffer to compute {run.tokens:,} tokens at a time in, over {run.score_cells:,} cells"
    buffer = Part(_BUFFER, whole(size * rule.low), size, whole(size * rule.high), note)
    return part("runtime", rules.constants.runtime, "device context and libraries"), buffer


def longest(setting: Setting, rules: Rules, found: Held, slots: int) -> int | None:
    """The longest context of so many slots that every device holds with the buffer for it; None where length is free.

    The buffer grows with the context, so that what another context leaves is not enough to go by. Both come in whole
    steps of cells.
    """
    first = found.longest
    if first is None:
        return None
    if not all(_buffer(rank) for rank in found.ranks):
        return first if slots == 1 else _most(lambda tokens: _holds(found, slots, tokens), first // slots)
    where, step = placed(setting, rules), rules.cells.pad

    def fits(steps: int) -> bool:
        scenario = setting.scenario._replace(limit_tokens=steps * step)
        return all(_fits(setting._replace(scenario=scenario), rules, rank, where, slots) for rank in found.ranks)

    return step * _most(fits, max(1, first // step))


def _most(fits: Callable[[int], bool], guess: int) -> int:
    """The largest whole number that fits, looked for around a guess; fewer always fit where more do."""
    low, high, stride = (guess, guess + 1, 1) if fits(guess) else (guess - 1, guess, 1)
    while high > guess and fits(high):
        low, high, stride = high, high + 2 * stride, 2 * stride
    while low < guess and low and not fits(low):
        low, high, stride = max(0, low - 2 * stride), low, 2 * stride
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _holds(found: Held, slots: int, tokens: int) -> bool:
    """Whether every device holds so many streams of a length, beside nothing that grows with it."""
    return not tokens or all(rank.pool.needed(slots, tokens) <= rank.pool_bytes for rank in found.ranks)


def _fits(setting: Setting, rules: Rules, rank: Rank, where: Placement, slots: int) -> bool:
    run = pass_of(setting, rules, rank.load, where)
    size = compute_bytes(setting.scenario.model, rules.compute, run, fused=fused(setting, rules))
    return rank.pool.needed(slots, run.score_cells) + size <= rank.budget_bytes + _buffer(rank)


def _buffer(rank: Rank) -> int:
    return sum(each.middle for each in rank.parts if each.name == _BUFFER)


def pass_of(setting: Setting, rules: Rules, load: RankLoad, where: Placement) -> Pass:
    """One pass on a device; where the host keeps the output matrix, the first device works it off."""
    rule, cells = rules.compute, up(setting.scenario.limit_tokens, rules.cells.pad)
    tokens = min(pass_tokens(setting, rules), cells)
    host_layer, host_head = host_bytes(setting, where)
    # Of several devices the first one that may takes what is on the host.
    apart = host_work(setting, where) if rule.apart and load.index == 0 else HostWork()
    first = where.output is None and load.index == 0 and rule.all_outputs
    outputs = tokens if rule.all_outputs else min(tokens, slots_of(setting, rules))
    return Pass(
        tokens=tokens,
        outputs=outputs if first or load.index == where.output else 0,
        mask_cells=mask_cells(_spans(load), cells, rules.cells.window_pad, tokens),
        score_cells=cells,
        copies=rule.copies if _side_by_side(setting, where) else 1,
        widened_bytes=_widened_bytes(setting, rules, load, cells) if rule.widens else 0,
        host_layer_bytes=0 if rule.apart else host_layer,
        host_head_bytes=host_head if first else 0,
        host=apart,
        routed=not rule.apart or has_experts(setting, where.devices[load.index]),
    )


def _widened_bytes(setting: Setting, rules: Rules, load: RankLoad, cells: int) -> int:
    """The widest layer's keys and values in 16 bits, each where it is of another type and attention is fused."""
    names = setting.scenario.cache.name.split("/")
    sides = [name != _SIXTEEN_BITS for name in (names[0], names[-1])]
    if not any(sides) or not fused(setting, rules):
        return 0
    specs = [term.spec for term in load.terms if term.growing_bytes and term.window_tokens is None]
    widths = [spec.kv_heads * (sides[0] * spec.key_width + sides[1] * spec.value_width) for spec in specs]
    return 2 * cells * max(widths, default=0)


def _spans(load: RankLoad) -> list[int | None]:
    return [term.window_tokens for term in load.terms if term.growing_bytes]


def _side_by_side(setting: Setting, where: Placement) -> bool:
    """Whether several devices hold the whole model, and work on passes side by side."""
    placed = sum(map(len, where.devices))
    whole_model = where.output is not None and placed == setting.scenario.model.architecture.layers
    overridden = setting.asked.get("cpu_expert_layers") or setting.asked.get("cpu_tensors")
    return whole_model and len(where.devices) > 1 and not overridden


def _terms(setting: Setting, rules: Rules, where: Placement, ranks: tuple[Rank, ...]) -> Terms:
    slots = slots_of(setting, rules)
    sharing = "one buffer that they share" if unified(setting, rules) else "a stream of its own for each"
    plural = "slot" if slots == 1 else "slots"
    found = [rules.note] if rules.note else []
    found.append(
        f"llama.cpp {rules.name}, {slots} {plural}, {sharing}, started with as large a context as memory holds"
    )
    found.append("the embedding table stays on the host")
    warnings = (*left_on_the_host(setting, where), *_moved_by_itself(setting, rules, ranks))
    return Terms(rules.name, 1, slots, needs_limit=True, assumptions=tuple(found), warnings=warnings)


def left_on_the_host(setting: Setting, where: Placement) -> Iterator[str]:
    """Say what the host keeps of a model, and that times do not count it."""
    layers = setting.scenario.model.architecture.layers
    here, hosted = sum(map(len, where.devices)), hosted_modules(setting)
    if here < layers or where.output is None:
        host = f"{layers - here} of {layers} layers" if here < layers else "the output matrix"
        yield f"{host} stay on the host with their cache; times are those of a model wholly on GPUs."
    if hosted:
        own = {layer for parts in hosted.values() for part in parts for layer in part.layers}
        routed = all(module.name.startswith("experts.") for module in hosted)
        what = "experts" if routed else "matrices"
        yield f"{what} of {len(own)} of {layers} layers stay on the host; times are those of a model wholly on GPUs."
    elif setting.asked.get("cpu_tensors"):
        yield f"cpu_tensors match no tensor of {setting.scenario.model.name}: nothing stays on the host by them."


def _moved_by_itself(setting: Setting, rules: Rules, ranks: tuple[Rank, ...]) -> Iterator[str]:
    """Say where a build would place otherwise than is quoted: with --fit, unless the question says what goes where."""
    margin = rules.fitting.margin_bytes
    if not margin or any(setting.asked.get(name) is not None for name in _PLACING):
        return
    limit = setting.scenario.limit_tokens
    slots = 1 if unified(setting, rules) else slots_of(setting, rules)
    if any(rank.budget_bytes - rank.pool.needed(slots, limit) < margin for rank in ranks):
        yield (
            f"llama.cpp {rules.name} would not start so where --fit is on, as it is unless --fit off: it leaves"
            f" {margin >> 20:,} MiB free on each device and moves layers or experts to the host until they are. Say"
            " gpu_layers for all to be where they are quoted."
        )
