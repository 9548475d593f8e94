"""A question to TensorRT-LLM, in the terms of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.engines.ranks.attention import attention_ranks
from service.domain.engines.ranks.holding import RanksHolding
from service.domain.engines.ranks.levers import narrower, released, shorter
from service.domain.engines.tensorrt_llm.capacity import (
    batch_of,
    block_tokens,
    fraction_of,
    hold,
    keeps_windows,
    kept_load,
)
from service.domain.engines.tensorrt_llm.policy import TensorrtLlmEngine
from service.domain.engines.tensorrt_llm.pools import BlockPool
from service.domain.engines.tensorrt_llm.state_pool import StatePool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.ranks.held import Held, Rank
    from service.domain.engines.ranks.levers import Candidate
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question

_ROOMY = 0.95
_FEW_SEQUENCES = 256


class TensorrtLlmHolding(RanksHolding):
    """What a release of TensorRT-LLM would print when it starts, and what its pool is worth."""

    basis = "runtime, pass and sampler by closed forms that few logs stand behind; the rest is the release's own rule"

    def __init__(self, question: Question) -> None:
        """Hold the question by the rules of its release."""
        engine = question.engine
        assert isinstance(engine, TensorrtLlmEngine)  # noqa: S101  # `holding.hold` chose by this
        self.rules = engine.release(question.version)
        super().__init__(question)

    def hold(self, setting: Setting) -> Held:
        """Hold a setting by the release's rules."""
        return hold(setting, self.rules)

    def kept(self, load: RankLoad) -> RankLoad:
        """Windows only where they were asked for, states in the release's type."""
        return kept_load(load, self.rules, windows=keeps_windows(self.setting))

    def filled_in(self) -> Iterator[tuple[str, Any, str]]:
        """The batch, the block, and what is off by default."""
        setting, rules = self.setting, self.rules
        batch = batch_of(setting, rules)
        yield "max_batched_tokens", batch.tokens, "catalog"
        yield "max_sequences_limit", batch.sequences, "catalog"
        yield "block_tokens", block_tokens(setting, rules), "catalog"
        yield "attention_data_parallel", attention_ranks(setting), "default"
        yield "hybrid_cache", keeps_windows(setting), "default"

    def held_back_note(self) -> str:
        """What the share leaves."""
        return "held back by memory_utilization, a share of what is free after loading"

    def pool_lines(self, rank: Rank) -> Iterator[str]:
        """Tokens by their bytes, pool by pool."""
        pool, size = rank.pool, rank.pool_bytes
        if isinstance(pool, StatePool):
            states = pool.states(size)
            yield f"{states:,} B of it for recurrent states"
            pool, size = pool.tokens_pool, max(0, size - states)
        assert isinstance(pool, BlockPool)  # noqa: S101  # as `hold` made it
        for window, each in pool.windows:
            held_in = f" in a pool for windows of {window:,} tokens" if len(pool.windows) > 1 else ""
            yield f"{each:,} B a token{held_in}"
        yield f"{pool.tokens(size):,} tokens in blocks of {pool.block_tokens:,}"

    def candidates(self, catalog: Catalog) -> Iterator[Candidate]:
        """Narrower types, half the context, a larger share, smaller buffers, pools for windows."""
        setting, rules = self.setting, self.rules
        yield from narrower(setting, catalog, ("fp8",), ("fp8", "w4a16"))
        yield from shorter(setting)
        yield from released(setting, over=self.held.over)
        if not keeps_windows(setting):
            yield "smaller", {"hybrid_cache": True}, setting.with_asked(hybrid_cache=True)
        if setting.scenario.budget.pool_bytes is not None:
            return
        if fraction_of(setting, rules) < _ROOMY:
            change = {"memory_utilization": _ROOMY}
            yield "released", change, setting.with_asked(**change)
        if batch_of(setting, rules).sequences > _FEW_SEQUENCES:
            fewer = {"max_sequences_limit": _FEW_SEQUENCES}
            yield "released", fewer, setting.with_asked(**fewer)
