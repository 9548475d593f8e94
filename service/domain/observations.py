"""What one accepted row teaches: its values beside those that the catalog alone would have quoted for the same setup.

Only differences travel on: a reserve in bytes says little about another model, what the reserve's model missed says
much. A row that cannot be compared teaches nothing and stays what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from service.domain.calibration import Quantity, Scope
from service.domain.engines.times import Case
from service.domain.errors import QuoteError
from service.domain.holding import hold
from service.domain.learning import Observation
from service.domain.measurement import CPU, gpu_name
from service.domain.measurement_limits import limits_of
from service.domain.measurement_physics import matmul_type
from service.domain.question import resolve
from service.domain.row_commands import command_of, release, spelled_out
from service.domain.scopes import NO_ENGINE, RESERVING, batch_name, device_scope, engine_batch, scope_of
from service.domain.traffic import Traffic

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from service.domain.engines.times import Times
    from service.domain.gpu import Gpu
    from service.domain.holding import Holding
    from service.domain.measurement_limits import Limits
    from service.domain.question import Catalog, Question

Row = dict[str, Any]
Found = dict[Quantity, Observation]
Memo = dict[tuple[Any, ...], Any]

_MEMO: Final = 512
_UNCOMPARED: Final = (QuoteError, ArithmeticError, LookupError, TypeError, ValueError, AttributeError)
# What says how a service is used, and not how it is built.
_NOT_ASKED: Final = frozenset({"batch_size", "calibration", "as_of", "prompt_tokens", "prefill_sequences", "gpu"})
_LAYOUT: Final = frozenset({"tensor_parallel", "pipeline_parallel", "gpu_count"})
_FIXED: Final = ("kv_cache_bytes", "reserve_bytes", "speculative_method", "draft_model", "cpu_offload_bytes")


class Compared:
    """A row with what it is compared with; raises what a catalog or a question raises where it cannot be."""

    def __init__(self, row: Mapping[str, Any], catalog: Catalog, memo: Memo | None = None) -> None:
        """Look up the device; `memo` keeps what rows of one setup share, for one catalog."""
        self.catalog = catalog
        self.memo: Memo = {} if memo is None else memo
        self.row = row = self._spelled_out(row)
        self.values: Mapping[str, Any] = row["values"]
        self.setup: Mapping[str, Any] = row.get("setup") or {}
        self.software: Mapping[str, Any] = row.get("software") or {}
        self.device: Mapping[str, Any] = row.get("gpu") or {}
        self.gpu: Gpu = catalog.gpu(gpu_name(row) or "")

    def _spelled_out(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """The row with fields for its command, which is read once for rows that share it."""
        if command_of(row) is None:
            return row
        key = ("command", repr(row.get("software")), repr(row["setup"]))
        heard: Mapping[str, Any] | None = self.memo.get(key)
        if heard is None:
            heard = self._kept(key, spelled_out(row, self.catalog))
        return {**row, "setup": heard["setup"], "software": heard["software"]}

    @property
    def engine(self) -> str:
        """The engine that ran, `none` where torch alone did."""
        named: str = self.software.get("engine") or self.setup.get("engine") or NO_ENGINE
        return named.casefold()

    @property
    def limits(self) -> Limits:
        """What of measurements may be compared; raises LookupError where the catalog does not say."""
        found = limits_of(self.catalog)
        if found is None:
            raise LookupError("the catalog does not say what may be compared")
        return found

    def scope(self, question: Question | None = None, **more: str | None) -> Scope:
        """Under which circumstances; layout and class only where a model ran."""
        if question is None:
            return device_scope(self.gpu, driver=self.device.get("driver"), **more)
        return scope_of(question, driver=self.device.get("driver"), **more)

    def question(self, engine: str | None = None, *, own_memory: bool = True, **more: object) -> Question:
        """What somebody would have asked who knew the setup, and with `own_memory` what the process saw of the device.

        Answered by the catalog alone, unless `more` asks for what was learned.
        """
        asked = {name: value for name, value in self.setup.items() if name not in _NOT_ASKED}
        engine = engine or self.engine
        version = self.software.get("engine_version") or self.setup.get("engine_version")
        asked |= {"gpu": self.gpu.id, "engine": engine, "calibration": "off", **more}
        asked.pop("engine_version", None)
        self._count_listed(asked)
        if engine != NO_ENGINE:
            # Of a release that nobody named, the newest one would be taken.
            asked["engine_version"] = _told(version)
            seen = self.device.get("memory_bytes")
            if seen and own_memory and "memory_bytes" not in asked:
                asked["memory_bytes"] = self._believed(seen)
        if (self.device.get("count") or 1) > 1 and not {
            "tensor_parallel",
            "pipeline_parallel",
            "gpu_count",
        } & asked.keys():
            raise ValueError("several devices in a layout that nobody told")
        return resolve(asked, self.catalog)

    def _count_listed(self, asked: dict[str, Any]) -> None:
        """Put how many cards there are in the place of a list of them, which says the same of cards of one kind."""
        listed = asked.pop("gpus", None) or ()
        if {self.catalog.gpu(name).id for name in listed} - {self.gpu.id}:
            raise ValueError("cards of several kinds have no one figure")
        if listed and asked.setdefault("gpu_count", len(listed)) != len(listed):
            raise ValueError("gpu_count is not the number of gpus")

    def _believed(self, seen: int) -> int:
        """What a process saw of the device, unless that is another device's size."""
        known = self.gpu.visible_bytes or self.gpu.advertised_bytes
        if abs(seen / known - 1) > self.limits.other_size:
            raise ValueError("the memory is not that of the device")
        return seen

    def held(self, **asked: Any) -> tuple[Question, Holding]:  # noqa: ANN401  # as `question` takes them
        """The question with what its engine holds, worked out once for rows that differ in values alone."""
        key = (*(repr(self.row.get(part)) for part in ("gpu", "software", "setup")), *sorted(asked.items()))
        found: tuple[Question, Holding] | None = self.memo.get(key)
        if found is None:
            question = self.question(**asked)
            found = self._kept(key, (question, hold(question)))
        return found

    def _kept(self, key: tuple[Any, ...], found: Any) -> Any:  # noqa: ANN401  # as it was found
        if len(self.memo) >= _MEMO:
            self.memo.clear()
        self.memo[key] = found
        return found

    def times(self, ranks: int = 1) -> Times:
        """The coefficients of 16-bit work under no engine."""
        return self.catalog.engine(NO_ENGINE).step.times(Case(self.gpu, "fp16", 16.0, 16.0, ranks, None))


def _told(version: str | None) -> str:
    if not version:
        raise ValueError("no release is told")
    return release(version)


def observe(row: Mapping[str, Any], catalog: Catalog, memo: Memo | None = None) -> tuple[Scope, Found] | None:
    """What an accepted row teaches and under which circumstances; None for one that cannot be compared."""
    reader = _READERS.get(row["kind"])
    if reader is None or (gpu_name(row) or CPU).casefold() == CPU:
        return None
    try:
        found = reader(Compared(row, catalog, memo))
    except _UNCOMPARED:
        return None
    return found if found and found[1] else None


def _device_memory(row: Compared) -> tuple[Scope, Found] | None:
    listed, total = row.gpu.visible_bytes or row.gpu.advertised_bytes, row.values["total_bytes"]
    if (row.values.get("memory_kind") == "unified") != row.gpu.unified and row.values.get("memory_kind"):
        return None
    return row.scope(), {Quantity.VISIBLE_MEMORY: Observation(total - listed, total)}


def _bandwidth(row: Compared) -> tuple[Scope, Found] | None:
    listed = row.gpu.bandwidth_bytes_per_second
    if listed is None or row.values.get("access", "read") != "read":
        return None
    return row.scope(), {
        Quantity.BANDWIDTH: _share(row.values["bytes_per_second"], listed, row.times().weight_fraction)
    }


def _matmul(row: Compared) -> tuple[Scope, Found] | None:
    dtype, values = matmul_type(row.values["dtype"]), row.values
    listed = row.gpu.peaks.get(dtype)
    least = row.limits.least_matmul_side
    if listed is None or any((values.get(side) or least) < least for side in ("m", "n", "k")):
        return None
    share = _share(values["flops_per_second"], listed, row.times().compute_fraction)
    return row.scope(dtype=dtype), {Quantity.COMPUTE: share}


def _share(rate: float, listed: float, modelled: float) -> Observation:
    """An achieved share of a listed rate, beside the modelled share."""
    return Observation(rate / listed / modelled - 1, rate / listed)


def _all_reduce(row: Compared) -> tuple[Scope, Found] | None:
    size, ranks, seconds = row.values["bytes"], row.values["ranks"], row.values["seconds"]
    times = row.times(ranks)
    scope = row.scope(ranks=str(ranks))
    if size <= row.limits.small_message_bytes:
        modelled = times.all_reduce_seconds + size / times.link_bytes_per_second
        return scope, {Quantity.ALL_REDUCE_LATENCY: Observation(seconds / modelled - 1, seconds)}
    if size >= row.limits.large_message_bytes:
        rate = size / max(seconds - times.all_reduce_seconds, seconds / 2)
        return scope, {Quantity.ALL_REDUCE_RATE: Observation(rate / times.link_bytes_per_second - 1, rate)}
    return None


def _kv_allocation(row: Compared) -> tuple[Scope, Found] | None:
    rate = row.values.get("bytes_per_token")
    if rate is None:
        tokens, sizes = row.values["tokens"], row.values["bytes"]
        rate = (sizes[1] - sizes[0]) / (tokens[1] - tokens[0])
    question, held = row.held(engine=NO_ENGINE)
    modelled = held.load.growth_bytes(question.scenario.context_tokens)
    return row.scope(question), {Quantity.BYTES_PER_TOKEN: Observation(rate / modelled - 1, rate)}


def _decode_step(row: Compared) -> tuple[Scope, Found] | None:
    if row.setup.get("speculative_method") or row.setup.get("max_loras"):
        return None
    question = row.question()
    batch = row.setup.get("batch_size") or 1
    flow = Traffic(question)
    step = flow.step(batch, question.scenario.context_tokens)
    if step is None:
        return None
    modelled = step.seconds
    architecture, timed = question.scenario.model.architecture, row.values.get("layers_timed")
    if timed is not None and timed != architecture.layers:
        if architecture.experts[0] or len(architecture.caches) > 1:
            return None
        modelled *= timed / architecture.layers * _layers_share(flow)
    seconds = row.values["seconds"]
    scope = row.scope(question, batch=batch_name(batch))
    return scope, {Quantity.STEP: Observation(seconds / modelled - 1, seconds)}


def _layers_share(flow: Traffic) -> float:
    """What a step's layers read of all that it reads: the output head is not one of the layers that are timed."""
    architecture = flow.scenario.model.architecture
    return 1 - architecture.head_elements / max(architecture.head_elements, flow.weights.parameters)


def _engine_capacity(row: Compared) -> tuple[Scope, Found] | None:
    if any(row.setup.get(name) for name in _FIXED):
        return None
    question, held = row.held()
    if question.engine.name not in RESERVING:
        return None
    measured = measured_pool(row.values, held)
    if measured is None or not held.pool_bytes or not held.starts:
        return None
    parts = {part["name"]: part["bytes"] for part in held.ledger()["parts"]}
    beyond = held.pool_bytes - measured
    reserve = sum(size for name, size in parts.items() if name.startswith("reserve"))
    found = {Quantity.RESERVE: Observation(beyond, reserve + beyond), **_parts(row.values, parts)}
    return row.scope(question, batch=engine_batch(question)), found


def measured_pool(values: Mapping[str, Any], held: Holding) -> float | None:
    """The pool in bytes on a GPU, as measured or as its tokens say; None where the row tells neither."""
    pool, tokens = values.get("kv_cache_bytes"), values.get("kv_capacity_tokens")
    if tokens and held.capacity_tokens:
        by_tokens = float(held.pool_bytes) * float(tokens) / held.capacity_tokens
        # Where both are told and differ, a layout or a rate is not what it is taken for.
        return by_tokens if not pool or abs(by_tokens / pool - 1) < _SAME else float(pool)
    return float(pool) if pool else None


_SAME: Final = 0.01
_TOLD: Final[tuple[tuple[Quantity, str, tuple[str, ...]], ...]] = (
    (
        Quantity.ACTIVATIONS,
        "activation_bytes",
        ("reserve.activations", "reserve.sampler", "reserve.encoder", "reserve.state"),
    ),
    (Quantity.GRAPHS, "graph_bytes", ("reserve.graphs",)),
    (Quantity.RUNTIME, "other_bytes", ("reserve.runtime", "reserve.communication")),
    (Quantity.WEIGHTS, "weight_bytes", ("weights", "adapters")),
)


def _parts(values: Mapping[str, Any], parts: Mapping[str, int]) -> Found:
    """The parts that the row separates, beside those of the ledger."""
    found: Found = {}
    for quantity, name, own in _TOLD:
        told = values.get(name)
        if told is not None:
            found[quantity] = Observation(told - sum(parts.get(part, 0) for part in own), told)
    return found


_READERS: Final[Mapping[str, Callable[[Compared], tuple[Scope, Found] | None]]] = {
    "device_memory": _device_memory,
    "memory_bandwidth": _bandwidth,
    "matmul_rate": _matmul,
    "all_reduce": _all_reduce,
    "kv_allocation": _kv_allocation,
    "decode_step": _decode_step,
    "engine_capacity": _engine_capacity,
}
