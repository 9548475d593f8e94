"""A question to vLLM: its setting, what the release holds of it, and that in the terms of every answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from service.domain.cache.full import FullCache
from service.domain.engines.vllm import explain
from service.domain.engines.vllm.adapter_rules import DEFAULT_RANK
from service.domain.engines.vllm.batch import batch_of
from service.domain.engines.vllm.capacity import hold, longest_context
from service.domain.engines.vllm.compressed_checks import compressed_warnings
from service.domain.engines.vllm.idle import idle_warnings
from service.domain.engines.vllm.levers import levers
from service.domain.engines.vllm.offloading import offload_warnings
from service.domain.engines.vllm.policy import VllmEngine
from service.domain.engines.vllm.refusals import core_of, takes_block
from service.domain.engines.vllm.setting import UNKNOWN_DEVICE, Asked, Device, Memory, Setting
from service.domain.errors import Fault, NotSupported
from service.domain.explain import sources, weights_note
from service.domain.holding import Holding
from service.domain.loads import RankLoad, rank_loads

if TYPE_CHECKING:
    from service.domain.engines.vllm.setting import Batch
    from service.domain.gpu import Gpu
    from service.domain.question import Catalog, Question

_OWN_NAMES = frozenset(Asked._fields)
_KEPT_WHOLE = ("sliding", "chunked")
_SHARES_CONTEXTS = "--decode-context-parallel-size"


class VllmHolding(Holding):
    """What a release of vLLM would print when it starts, and what its pool is worth."""

    def __init__(self, question: Question) -> None:
        """Let the release hold the question, and note what it filled in."""
        engine = question.engine
        assert isinstance(engine, VllmEngine)  # noqa: S101  # `holding.hold` chose by this
        self.question = question
        self.release = engine.release(question.version)
        _check_release(question, engine)
        self.setting = setting_of(question)
        self.held = held = hold(self.setting, self.release)
        self.load = self._load()
        self.sequences, self.running = held.sequences, min(held.sequences, held.batch.sequences)
        self.concurrency, self.capacity_tokens = held.concurrency, held.capacity_tokens
        self.starts, self.pool_bytes = held.starts, held.cache_bytes
        self.blocks, self.block_tokens, self.groups = held.blocks, held.plan.block_tokens, len(held.plan.groups)
        longest = held.longest_limit
        self.longest_limit = self.setting.limit_tokens if longest is None else longest
        self._echo()

    @property
    def longest_context(self) -> int | None:  # type: ignore[override]  # only /fit asks, and once
        """The longest single request of an engine that is started for it."""
        return longest_context(self.setting, self.held)

    def _echo(self) -> None:
        """Every setting of the engine that its release filled in."""
        echo, held = self.question.echo, self.held
        echo.take("engine_version", held.release.name)
        echo.take("max_batched_tokens", held.batch.tokens, "catalog")
        echo.take("max_sequences_limit", held.batch.sequences, "catalog")
        if takes_block(self.setting, held.rules, held.plan.block_tokens):
            echo.take("block_tokens", held.plan.block_tokens, "derived")
        echo.take("enforce_eager", default=False)
        echo.take("decode_context_parallel", 1)
        if self.setting.asked.max_loras:
            echo.take("max_lora_rank", DEFAULT_RANK)
            echo.take("fully_sharded_loras", default=False)
        learned = self.setting.memory.correction.probes
        echo.take("reserve_bytes", held.rank.reserve.total, "calibrated" if learned else "modelled")
        self.forget_strangers()

    def _load(self) -> RankLoad:
        """The limiting rank's load, with its windows only where the release's cache keeps to them."""
        scenario = self.question.scenario
        loads = rank_loads(scenario.model, scenario.weights, scenario.cache, scenario.layout)
        return self.as_kept(loads[self.held.rank.stage])

    def as_kept(self, load: RankLoad) -> RankLoad:
        """A load whose windowed caches are whole where the release pages them as full attention."""
        if not any(term.kind in _KEPT_WHOLE for term in load.terms) or self.held.plan.keeps_windows:
            return load
        terms = tuple(
            replace(term, spec=_whole(term.spec), window_tokens=None) if term.kind in _KEPT_WHOLE else term
            for term in load.terms
        )
        return load._replace(terms=terms)

    def fits(self, sequences: int, context_tokens: int) -> bool:
        """Whether the pool has the blocks of so many requests."""
        held = self.held
        placed = not held.rank.over_bytes and not held.refusals
        return placed and sequences * held.plan.blocks(context_tokens, held.flight) <= held.blocks

    def ledger(self) -> dict[str, Any]:
        """The device in the parts that the release's own start-up line counts, and what is around them."""
        known = sources(self.question)
        rows = explain.ledger_rows(self.held, self._weights_note())
        return {
            "memory_bytes": self.setting.memory.memory_bytes,
            "overcommitted_bytes": self.held.rank.over_bytes,
            "parts": [
                {
                    "name": row.name,
                    "bytes": row.bytes,
                    "source": known.get(row.name, row.source or _source(row.name)),
                    "note": row.note,
                }
                for row in rows
            ],
        }

    def constraint(self) -> str:
        """As the release would put it."""
        return explain.constraint(self.held)

    def gain_bytes(self) -> int:
        """The blocks of one more request, beside what is left over."""
        held = self.held
        missing = held.context_blocks * (held.sequences + 1) - held.blocks
        return max(0, missing) * held.rank.block_bytes + held.rank.over_bytes

    def shortage_bytes(self, sequences: int) -> tuple[int, int]:
        """On the limiting rank, for weights, reserve and cache, or what utilization asks for of memory that is free."""
        asked = explain.free_memory(self.held)
        if asked is not None:
            return asked
        return explain.needed_bytes(self.held, sequences), explain.available_bytes(self.held)

    def interval(self) -> dict[str, Any]:
        """From the spread of the evidence behind each modelled part."""
        return explain.interval(self.held, self.question.scenario.layout.data)

    def explain(self) -> list[str]:
        """What is taken for granted of the engine, and its arithmetic."""
        self.question.assumptions += explain.assumptions(self.held, self.setting)
        self.question.warnings += [*explain.warnings(self.held), *offload_warnings(self.held, self.setting)]
        asked = self.question.echo.asked
        self.question.warnings += idle_warnings(self.setting, asked)
        kv_dtype, rules = asked.get("kv_dtype"), self.held.rules.compressed
        self.question.warnings += compressed_warnings(self.setting, self.release.name, rules, kv_dtype)
        return explain.derivation(self.held, self.setting, self._weights_note())

    def _weights_note(self) -> str:
        """The checkpoint's own arithmetic, and what loading adds to it."""
        note, hosted = weights_note(self.question, self.load.index), self.held.hosted_bytes
        added = self.held.rank.weight_bytes - self.held.rank.adapter_bytes - self.load.weight_bytes + hosted
        note += f" + {added:,} B that loading adds" if added > 0 else ""
        return f"{note} - {hosted:,} B in host memory" if hosted else note

    def levers(self, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
        """Narrower types, shorter contexts, and settings that leave more to the cache."""
        return levers(self.question, self.setting, self.held, catalog, ceiling)


def _check_release(question: Question, engine: VllmEngine) -> None:
    """Refuse ranks that share a context where the release has no flag for them."""
    if question.echo.asked.get("decode_context_parallel", 1) == 1:
        return
    absent = engine.flags.absent(_SHARES_CONTEXTS, question.version or "")
    if absent:
        detail = f"vLLM {question.version}: {absent}."
        raise NotSupported(Fault("/decode_context_parallel", detail))


def setting_of(question: Question) -> Setting:
    """A resolved question as the engine's setting."""
    scenario, asked = question.scenario, question.echo.asked
    values = question.echo.values
    budget = scenario.budget
    memory = Memory(
        budget.memory_bytes,
        values["memory_utilization"],
        budget.others_bytes,
        asked.get("reserve_bytes"),
        budget.pool_bytes,
        budget.correction,
    )
    own = Asked(**{name: _kept(asked[name]) for name in _OWN_NAMES if name in asked})
    return Setting(
        *(scenario.model, scenario.weights, scenario.cache, scenario.layout, device_of(question.gpu), memory),
        *(scenario.context_tokens, scenario.limit_tokens, own, scenario.weight_bytes, scenario.parameters),
    )


def _kept(value: Any) -> Any:  # noqa: ANN401  # as the name's type
    """A value as part of a key."""
    return tuple(value) if isinstance(value, list) else value


def batch_for(question: Question) -> Batch:
    """The batches that a resolved question's engine is started for."""
    engine = question.engine
    assert isinstance(engine, VllmEngine)  # noqa: S101  # asked of no other
    setting, release = setting_of(question), engine.release(question.version)
    return batch_of(setting, release.cores[core_of(setting, release)])


def device_of(gpu: Gpu | None) -> Device:
    """What of a GPU decides how the engine runs on it."""
    if gpu is None:
        return UNKNOWN_DEVICE
    link = gpu.nvlink_bytes_per_second or 0.0
    return Device(gpu.id, gpu.name, gpu.vendor, gpu.compute_capability, link, gpu.unified, frozenset(gpu.peaks))


def _whole(spec: Any) -> FullCache:  # noqa: ANN401  # a windowed or chunked cache
    return FullCache(spec.kv_heads, spec.key_width, spec.value_width)


def _source(name: str) -> str:
    return "modelled" if name.startswith("reserve.") else "derived"
