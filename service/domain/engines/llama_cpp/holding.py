"""A question to llama.cpp, in the terms of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.engines.llama_cpp.caches import kept_load
from service.domain.engines.llama_cpp.capacity import hold, keeps_windows, longest, pass_tokens, slots_of, unified
from service.domain.engines.llama_cpp.policy import LlamaCppEngine
from service.domain.engines.llama_cpp.pools import CellPool
from service.domain.engines.llama_cpp.refusals import fused
from service.domain.engines.ranks.holding import RanksHolding
from service.domain.engines.ranks.levers import narrower, released, shorter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.ranks.held import Held, Rank
    from service.domain.engines.ranks.levers import Candidate
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question


class LlamaCppHolding(RanksHolding):
    """What a build of llama.cpp would allocate when it starts, and what that is worth."""

    basis = "device context and compute buffer as logs spread them; weights, cells and states are exact"

    def __init__(self, question: Question) -> None:
        """Hold the question by the rules of its build."""
        engine = question.engine
        assert isinstance(engine, LlamaCppEngine)  # noqa: S101  # `holding.hold` chose by this
        self.rules = rules = engine.release(question.version)
        super().__init__(question)
        streams = 1 if unified(self.setting, rules) else slots_of(self.setting, rules)
        self.longest_context = longest(self.setting, rules, self.held, 1)
        alone = streams == 1
        self.longest_limit = self.longest_context if alone else longest(self.setting, rules, self.held, streams)

    def hold(self, setting: Setting) -> Held:
        """Hold a setting by the build's rules."""
        return hold(setting, self.rules)

    def kept(self, load: RankLoad) -> RankLoad:
        """Windows only of families that the build knows, states in 32 bits."""
        return kept_load(load, self.rules, windows=keeps_windows(self.setting, self.rules))

    def filled_in(self) -> Iterator[tuple[str, Any, str]]:
        """Slots, the pass, and where layers and attention run."""
        setting, rules = self.setting, self.rules
        yield "parallel_slots", slots_of(setting, rules), "catalog"
        yield "max_batched_tokens", pass_tokens(setting, rules), "catalog"
        yield "gpu_layers", setting.scenario.model.architecture.layers + 1, "default"
        yield "attention_backend", "on" if fused(setting, rules) else "off", "catalog"
        yield "hybrid_cache", keeps_windows(setting, rules), "catalog"

    def pool_note(self, rank: Rank) -> str:
        """Cells."""
        return f"{rank.pool.tokens(rank.pool_bytes):,} cells, as many as fit"

    def pool_lines(self, rank: Rank) -> Iterator[str]:
        """Cells by their bytes."""
        pool = rank.pool
        assert isinstance(pool, CellPool)  # noqa: S101  # as `hold` made it
        yield f"{pool.full_bytes:,} B a cell in {pool.groups} cache(s)"
        for window, size in pool.windows:
            yield f"and {size:,} B a cell in layers with a window of {window:,} tokens"
        yield f"{pool.tokens(rank.pool_bytes):,} cells"

    def candidates(self, catalog: Catalog) -> Iterator[Candidate]:
        """Narrower types, half the context, fewer slots, others' memory."""
        setting = self.setting
        caches = ("q8_0", "q4_0") if fused(setting, self.rules) else ()
        yield from narrower(setting, catalog, caches, ("q8_0", "q4_k_m"))
        yield from shorter(setting)
        yield from released(setting)
        if slots_of(setting, self.rules) > 1:
            yield "released", {"parallel_slots": 1}, setting.with_asked(parallel_slots=1)

    def reached_by(self, tensor_parallel: int) -> int:  # noqa: ARG002  # layers are spread and not sliced
        """Nothing: it has no tensor parallelism."""
        return 0
