"""What speaks against a measurement of a model: rates that none of its layouts give, steps faster than its bytes.

All of them are lower bounds of what honest runs need, as in `measurement_physics`.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import prod
from typing import TYPE_CHECKING, Any

from service.domain.cache.base import CacheKind
from service.domain.loads import rank_loads
from service.domain.measurement_physics import (
    UNITS,
    Bench,
    Doubt,
    above,
    all_reduce,
    below,
    cached_bytes,
    device_memory,
    matmul_rate,
    memory_bandwidth,
)
from service.domain.parallel import Layout, check_layout, tensor_counts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping

    from service.domain.loads import RankLoad
    from service.domain.measurement_limits import Window
    from service.domain.model import Model
    from service.domain.precision import CacheFormat, WeightFormat

_DEFAULT_CACHES = ("fp16",)
# An ideal width over all parameters, of which another one is made.
_PLAIN_WIDTH, _NARROWEST = "int4", "narrowest"


def _kv_allocation(bench: Bench) -> str | None:
    values, limits = bench.values, bench.limits
    pair = values.get("bytes") or (0,)
    wrong = above("bytes", max(pair), bench.memory_limit, bench.gpu)
    rate, slope = values.get("bytes_per_token"), _slope(values)
    wrong = wrong or above("bytes_per_token", rate or slope or 0, bench.memory_limit, bench.gpu)
    if wrong or (rate and slope and not limits.slope.holds(slope / rate)):
        return wrong or "bytes_per_token is not what tokens and bytes say."
    return _no_such_rate(bench, rate or slope or 0, "bytes_per_token", limits.cache_rate)


def _slope(values: Mapping[str, Any]) -> float | None:
    tokens, sizes = values.get("tokens"), values.get("bytes")
    return (sizes[1] - sizes[0]) / (tokens[1] - tokens[0]) if tokens and sizes else None


def _no_such_rate(bench: Bench, rate: float, name: str, window: Window) -> str | None:
    model, setup = bench.model, bench.setup
    if model is None or _split_inside(setup) != 1:
        return None
    if not model.architecture.caches:
        return f"{model.name} keeps no cache."
    rates = _rates(bench, model)
    if not rates or any(window.least * found <= rate <= window.most * found for found in rates):
        return None
    nearest = min(rates, key=lambda found: abs(found - rate))
    unit = next((f": {words}?" for factor, words in UNITS if _times(rate, nearest, factor, window.most)), ".")
    return f"{name} {rate:,.0f} is no rate of this model's layouts, the nearest is {nearest:,}{unit}"[:200]


def _rates(bench: Bench, model: Model) -> frozenset[int]:
    def make() -> frozenset[int]:
        return frozenset(found for load in _loads(bench, model, "fp16") for found in _rates_of(load))

    found: frozenset[int] = bench.formats.remember(("rates", *_key(bench, model)), make)
    return found


def _key(bench: Bench, model: Model) -> tuple[Hashable, ...]:
    """All that the loads of a row depend on."""
    names = ("kv_dtype", "tensor_parallel", "pipeline_parallel", "gpu_count")
    devices = (bench.row.get("gpu") or {}).get("count")
    return (id(model), "pipeline_parallel" in bench.setup, devices, *(bench.setup.get(name) for name in names))


def _times(rate: float, nearest: int, factor: int, most: float) -> bool:
    ratio = rate / nearest
    return 1 / most <= ratio / factor <= most or 1 / most <= ratio * factor <= most


def _rates_of(load: RankLoad) -> Iterator[int]:
    """Bytes of one more token: of all growing kinds, of those without a window, and without indexer keys."""
    growing = [term for term in load.terms if term.growing_bytes]
    for terms in (
        growing,
        [term for term in growing if term.window_tokens is None],
        [term for term in growing if term.spec.kind is not CacheKind.INDEXER],
    ):
        if terms:
            yield sum(term.growing_bytes for term in terms)


def _loads(bench: Bench, model: Model, weight_name: str | None) -> tuple[RankLoad, ...]:
    """Every stage of every layout in every cache format that the row may be about; none where weights are unclear."""
    weights = _weights(bench, weight_name)
    if weights is None:
        return ()
    key = ("loads", weight_name, *_key(bench, model))
    found: tuple[RankLoad, ...] = bench.formats.remember(key, lambda: tuple(_each_load(bench, model, weights)))
    return found


def _each_load(bench: Bench, model: Model, weights: WeightFormat) -> Iterator[RankLoad]:
    layouts = _layouts(bench, model)
    for cache in _caches(bench, model):
        for layout in layouts:
            yield from rank_loads(model, weights, cache, layout)


def _caches(bench: Bench, model: Model) -> list[CacheFormat]:
    """The formats that the cache may have been kept in."""
    asked = bench.setup.get("kv_dtype") or "auto"
    if asked == "auto":
        names = {model.cache_format, model.compute_type, *_DEFAULT_CACHES} - {None}
    else:
        latent = any(owners.spec.kind is CacheKind.LATENT for owners in model.architecture.caches)
        names = {asked, *(("fp8_ds_mla",) if latent and asked.startswith("fp8") else ())}
    found = (bench.formats.format(name) for name in sorted(names, key=str) if name)
    return [number.cache for number in found if not isinstance(number, Doubt) and number.cache]


def _layouts(bench: Bench, model: Model) -> list[Layout]:
    """The layouts that the setup allows; raises ValidationError where the model can have none of them."""
    setup, architecture = bench.setup, model.architecture
    stages = setup.get("pipeline_parallel") or 1
    tensor = setup.get("tensor_parallel") or (setup.get("gpu_count") if "pipeline_parallel" not in setup else None)
    devices = (bench.row.get("gpu") or {}).get("count") or 1
    counts = [count for count in tensor_counts(architecture) if count <= devices] if tensor is None else [tensor]
    layouts = [Layout(tensor=count, pipeline=stages) for count in counts]
    for layout in layouts:
        check_layout(layout, architecture)
    return layouts


def _weights(bench: Bench, name: str | None) -> WeightFormat | None:
    number = bench.formats.format(name) if name else None
    if number is None or isinstance(number, Doubt):
        return None
    return _narrowest(bench) if number.mixed else number.weight


def _narrowest(bench: Bench) -> WeightFormat | None:
    """What stands for a mix of widths: no file has fewer bits a parameter."""
    plain = bench.formats.format(_PLAIN_WIDTH)
    if isinstance(plain, Doubt) or plain.weight is None:
        return None
    return replace(plain.weight, name=_NARROWEST, element_bits=Fraction(bench.limits.least_mixed_bits))


def _batch_ceiling(bench: Bench) -> str | None:
    """What each sequence holds for itself: a token at least, whatever it shares and however long nobody said it is."""
    setup, model = bench.setup, bench.model
    own = (setup.get("context_tokens") or 1) - (setup.get("shared_prefix_tokens") or 0)
    sizes = [load.sequence_bytes(max(1, own)) for load in _loads(bench, model, "fp16")] if model else []
    if not sizes:
        return None
    needed = min(sizes) * bench.values["passed_sequences"] / _split(setup, "data_parallel") / _split_inside(setup)
    return above("The cache of passed_sequences", needed, bench.memory_limit, bench.gpu)


def _split(setup: Mapping[str, Any], *names: str) -> int:
    """Over how many ranks these names split something."""
    return prod(setup.get(name) or 1 for name in names)


def _split_inside(setup: Mapping[str, Any]) -> int:
    """Over how many ranks of one replica a cache is split beside its heads."""
    return _split(setup, "decode_context_parallel", "attention_data_parallel")


_PARTS = ("kv_cache_bytes", "weight_bytes", "activation_bytes", "graph_bytes", "other_bytes")


def _engine_capacity(bench: Bench) -> str | None:
    values, setup = bench.values, bench.setup
    total = sum(values.get(name) or 0 for name in _PARTS)
    offloaded = setup.get("cpu_offload_bytes") or 0
    wrong = above("The sum of the parts", total - offloaded, bench.memory_limit, bench.gpu)
    tokens, pool = values.get("kv_capacity_tokens"), values.get("kv_cache_bytes")
    wrong = wrong or (_tiny_pool(bench, pool) if pool else None)
    if pool and tokens == 0:
        wrong = wrong or "kv_capacity_tokens 0 contradicts kv_cache_bytes: such a cache holds some."
    if wrong or not tokens or not _is_plain(bench):
        return wrong
    if not pool:
        return _too_many_tokens(bench, tokens)
    return _no_such_rate(bench, pool / tokens, "kv_cache_bytes / tokens", bench.limits.pool_rate)


def _tiny_pool(bench: Bench, pool: float) -> str | None:
    small = f"kv_cache_bytes {pool:g} is less than any engine keeps: another unit?"
    return small if pool < bench.limits.least_pool_bytes else None


def _too_many_tokens(bench: Bench, tokens: int) -> str | None:
    """A capacity whose cache no layout of the model could place in the memory of the devices."""
    rates = _rates(bench, bench.model) if bench.model is not None else frozenset()
    if not rates:
        return None
    needed = min(rates) * tokens / _split(bench.setup, "data_parallel") / _split_inside(bench.setup)
    return above("The cache of kv_capacity_tokens", needed, bench.memory_limit, bench.gpu)


def _is_plain(bench: Bench) -> bool:
    """Whether tokens of a pool all take the same: not where kinds mix, a window bounds them or a draft has its own."""
    model, setup = bench.model, bench.setup
    kinds = {owners.spec.kind for owners in model.architecture.caches} if model else set()
    return kinds in ({CacheKind.FULL}, {CacheKind.LATENT}) and not (
        setup.get("speculative_method") or setup.get("draft_model")
    )


def _decode_step(bench: Bench) -> str | None:
    """A step reads the weights and what the cache holds, and multiplies each token with the weights."""
    setup = bench.setup
    if setup.get("weight_bytes") or setup.get("parameters"):
        return None
    # One pass may be for several tokens that were guessed.
    guesses = setup.get("speculative_method") or setup.get("draft_model")
    tokens = bench.limits.most_guessed_tokens if guesses else 1
    return _too_fast(bench, setup.get("batch_size") or 1, setup.get("context_tokens") or 0, tokens)


def _prefill(bench: Bench) -> str | None:
    setup = bench.setup
    tokens = setup.get("prompt_tokens") or setup.get("context_tokens")
    if not tokens or setup.get("shared_prefix_tokens") or setup.get("parameters"):
        return None
    return _too_fast(bench, tokens * (setup.get("prefill_sequences") or 1), 0, None)


def _too_fast(bench: Bench, tokens: int, context: int, steps: int | None) -> str | None:
    """Whether the layers that were timed could be read, and multiplied with, in the time of so many `steps`.

    `steps` is None for what need not read them all at once.
    """
    gpu, model = bench.gpu, bench.model
    name = bench.setup.get("weight_dtype") or (model.checkpoint_format if model else None)
    weights = _weights(bench, name)
    loads = _fullest(_loads(bench, model, name)) if model is not None and weights is not None else []
    if model is None or weights is None or not loads:
        return None
    share, inside = _timed_share(bench, model), _split_inside(bench.setup)
    head = model.architecture.vocabulary_size * model.architecture.hidden_size
    size = min(_size(load, tokens / inside, context, model, head) for load in loads) * share - cached_bytes(gpu)
    work = min(_work(load, tokens / inside, head) for load in loads) * share
    # Of a mix of widths only the least is known, which says nothing of what is too slow.
    slow = bench.values["seconds"] > bench.limits.slow_seconds and weights.name != _NARROWEST
    wrong = _read_too_fast(bench, size, steps, slow=slow) if steps else None
    peaks = [gpu.peaks[name] for name in (*weights.matmul_types, "bf16", "fp16") if name in gpu.peaks]
    if wrong or not peaks:
        return wrong
    rate, peak = work / bench.values["seconds"], max(peaks)
    wrong = above("Work / seconds", rate / (steps or 1), peak * bench.margin("matmul_rate"), gpu, "can multiply")
    if wrong or steps or not slow or not work:
        return wrong
    return below("Work / seconds", rate, peak * bench.limits.slow_work, gpu, "multiplies")


def _read_too_fast(bench: Bench, size: float, steps: int, *, slow: bool) -> str | None:
    """Whether so many bytes could be read in the time of the steps; or not read in another unit's time, where slow."""
    gpu, bandwidth = bench.gpu, bench.gpu.bandwidth_bytes_per_second
    if not bandwidth:
        return None
    rate = size / bench.values["seconds"]
    reach = bandwidth * bench.margin("memory_bandwidth")
    wrong = above("Bytes read / seconds", rate / steps, reach, gpu, "can move")
    if wrong or not slow or size <= 0:
        return wrong
    return below("Bytes read / seconds", rate, bandwidth * bench.limits.slow_read, gpu, "moves")


def _fullest(loads: tuple[RankLoad, ...]) -> list[RankLoad]:
    """The fullest stage of each layout: no step is over before it is."""
    fullest: list[RankLoad] = []
    for load in loads:
        if load.stage == 0:
            fullest.append(load)
        elif load.weights.read_bytes > fullest[-1].weights.read_bytes:
            fullest[-1] = load
    return fullest


def _timed_share(bench: Bench, model: Model) -> float:
    """The share of the layers that was timed, halved where layers differ and nobody said which ones these were.

    More than the model has are copies, which are read and multiplied with as often.
    """
    layers = model.architecture.layers
    timed: int | None = bench.values.get("layers_timed")
    if timed is None or timed == layers:
        return 1.0
    differ = bool(model.architecture.experts[0]) or len(model.architecture.caches) > 1
    return timed / layers / (2 if differ else 1)


def _work(load: RankLoad, tokens: float, head: int) -> float:
    return 2.0 * tokens * max(0, load.weights.read_parameters + load.weights.expert_parameters - head)


def _size(load: RankLoad, batch: float, context: int, model: Model, head: int) -> float:
    """Bytes of layers and cache, the fewest that can be: all sequences visit the same experts, and no head is read."""
    count, active = model.architecture.experts
    experts: float = load.weights.expert_bytes * active / count if count else 0
    cache: float = batch * sum(term.read_bytes(context) for term in load.terms) if context else 0
    read: float = max(0, load.weights.read_bytes - 2 * head) + experts + cache
    return read


CHECKS: Mapping[str, Callable[[Bench], str | None]] = {
    "device_memory": device_memory,
    "kv_allocation": _kv_allocation,
    "batch_ceiling": _batch_ceiling,
    "memory_bandwidth": memory_bandwidth,
    "matmul_rate": matmul_rate,
    "decode_step": _decode_step,
    "prefill": _prefill,
    "all_reduce": all_reduce,
    "engine_capacity": _engine_capacity,
}
"""The checks of each kind that is known."""
