"""A question to llama.cpp, in the terms of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.engines.llama_cpp.caches import kept_load
from service.domain.engines.llama_cpp.capacity import (
    hold,
    keeps_windows,
    left_on_the_host,
    longest,
    pass_tokens,
    placed,
    shares,
    slots_of,
    unified,
)
from service.domain.engines.llama_cpp.policy import LlamaCppEngine
from service.domain.engines.llama_cpp.pools import CellPool
from service.domain.engines.llama_cpp.refusals import fused
from service.domain.engines.ranks.holding import RanksHolding
from service.domain.engines.ranks.levers import narrower, released, shorter
from service.domain.stages import effective

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
        self._see_devices()
        streams = 1 if unified(self.setting, rules) else slots_of(self.setting, rules)
        self.longest_context = longest(self.setting, rules, self.held, 1)
        alone = streams == 1
        self.longest_limit = self.longest_context if alone else longest(self.setting, rules, self.held, streams)

    def _see_devices(self) -> None:
        """Of devices that differ, answer with the card that fills first, and with the rates of all of them together."""
        question = self.question
        if question.devices:
            question.gpu = question.devices[self.load.index].gpu
            question.bandwidth, question.peak = effective(question)

    def hold(self, setting: Setting) -> Held:
        """Hold a setting by the build's rules."""
        return hold(setting, self.rules)

    def kept(self, load: RankLoad) -> RankLoad:
        """Windows only of families that the build knows, states in 32 bits."""
        return kept_load(load, self.rules, windows=keeps_windows(self.setting, self.rules))

    def filled_in(self) -> Iterator[tuple[str, Any, str]]:
        """Slots, the pass, and where layers and attention run."""
        setting, rules = self.setting, self.rules
        # The same number asked for is another start where that gives each slot a stream of its own.
        if rules.slots.unified == rules.slots.unified_where_asked:
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

    def explain(self) -> list[str]:
        """The same with what each device has, where several do."""
        lines, setting = super().explain(), self.setting
        if setting.scenario.layout.pipeline == 1:
            return lines
        found, how = placed(setting, self.rules), "as asked" if setting.asked.get("tensor_split") else "equally"
        if setting.scenario.budgets and not setting.asked.get("tensor_split"):
            how = "by free memory, " + " : ".join(f"{share:,} B" for share in shares(setting, self.rules))
        held = (f"{len(layers):,}" for layers in found.devices)
        output = "the host" if found.output is None else f"device {found.output}"
        lines.insert(0, f"layers shared {how}: {' + '.join(held)}, the output matrix on {output}")
        return lines

    def untimed(self) -> Iterator[str]:
        """What stays on the host."""
        return left_on_the_host(self.setting, placed(self.setting, self.rules))

    def candidates(self, catalog: Catalog) -> Iterator[Candidate]:
        """Narrower types, half the context, fewer slots, others' memory."""
        setting = self.setting
        caches = ("q8_0", "q4_0") if fused(setting, self.rules) else ()
        yield from narrower(setting, catalog, caches, ("q8_0", "q4_k_m"))
        yield from shorter(setting)
        yield from released(setting, over=self.held.over)
        if slots_of(setting, self.rules) > 1:
            yield "released", {"parallel_slots": 1}, setting.with_asked(parallel_slots=1)
