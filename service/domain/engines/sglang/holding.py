"""A question to SGLang, in the terms of every answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.engines.lengths import lasting
from service.domain.engines.ranks.attention import attention_ranks
from service.domain.engines.ranks.holding import RanksHolding
from service.domain.engines.ranks.levers import narrower, released, shorter
from service.domain.engines.sglang.caches import full_bytes, kept_load, window_bytes
from service.domain.engines.sglang.capacity import hold, windows_of
from service.domain.engines.sglang.compressed import CompressedPool, compressed_lines
from service.domain.engines.sglang.drafting import draft_tokens
from service.domain.engines.sglang.layout import batch_for, layout_of, share_of, used_share
from service.domain.engines.sglang.policy import SglangEngine
from service.domain.engines.sglang.pools import StatePool
from service.domain.engines.sglang.refusals import page_tokens
from service.domain.units import MAX_EXACT_INTEGER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.ranks.held import Held, Rank
    from service.domain.engines.ranks.levers import Candidate
    from service.domain.engines.ranks.setting import Setting
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question

_ROOMY = 0.95


class SglangHolding(RanksHolding):
    """What a release of SGLang would print when it starts, and what its pools are worth."""

    basis = (
        "free memory before loading as logs of one and of several ranks spread it; the rest is the release's own rule"
    )

    def __init__(self, question: Question) -> None:
        """Hold the question by the rules of its release."""
        engine = question.engine
        assert isinstance(engine, SglangEngine)  # noqa: S101  # `holding.hold` chose by this
        self.rules = engine.release(question.version)
        super().__init__(question)

    def hold(self, setting: Setting) -> Held:
        """Hold a setting by the release's rules."""
        return hold(setting, self.rules)

    def longest(self) -> int | None:
        """As a start for that length would hold it: above some, a backend takes more of what is free."""
        setting, rules, found = self.setting, self.rules, self.held.longest
        if found is None or not rules.workspace.backend:
            return found
        share = share_of(setting, rules)
        if used_share(_for_length(setting, found), rules, share) == used_share(setting, rules, share):
            return found

        def reach(tokens: int) -> int:
            longest = self.hold(_for_length(setting, tokens)).longest
            return MAX_EXACT_INTEGER if longest is None else longest

        return lasting(setting.scenario.limit_tokens, found, reach)

    def kept(self, load: RankLoad) -> RankLoad:
        """Windows only where they have a pool, states in the release's type."""
        windows = windows_of(self.setting, self.rules)
        scenario = self.setting.scenario
        return kept_load(load, scenario.model.architecture, self.rules, scenario.cache, windows=windows)

    def filled_in(self) -> Iterator[tuple[str, Any, str]]:
        """The share, the batch, the page and what is on by default."""
        setting, rules = self.setting, self.rules
        # No share at all is none that a question could give.
        yield "memory_utilization", share_of(setting, rules) or None, "catalog"
        yield "max_batched_tokens", batch_for(setting, rules, layout_of(setting, rules)).tokens, "catalog"
        yield "block_tokens", page_tokens(setting, rules), "catalog"
        yield "attention_data_parallel", attention_ranks(setting), "default"
        yield "hybrid_cache", windows_of(setting, rules), "catalog"
        if draft_tokens(setting, rules):
            yield "speculative_tokens", draft_tokens(setting, rules), "catalog"
        yield "enforce_eager", False, "default"
        yield "prefix_caching", True, "default"

    def held_back_note(self) -> str:
        """What the share leaves for."""
        return "left for passes and graphs by memory_utilization, a share of what is free before loading"

    def pool_lines(self, rank: Rank) -> Iterator[str]:
        """States first, then tokens by their bytes."""
        pool, size = rank.pool, rank.pool_bytes
        if isinstance(pool, StatePool):
            kept = f"{pool.slots(size):,} slots x {pool.state_bytes:,} B of recurrent state"
            yield f"{kept}, and spare ones = {pool.states(size):,} B"
        if isinstance(pool, CompressedPool):
            yield from compressed_lines(pool, size)
            return
        full, window = full_bytes(rank.load), window_bytes(rank.load)
        windows, tokens = self.rules.windows.ratio
        beside = f", and {window:,} B in a pool of windows with {windows / tokens:g} of its tokens" if window else ""
        yield f"{full:,} B a token{beside}"
        yield f"{pool.tokens(size):,} tokens in pages of {pool.blocks_of:,}"

    def candidates(self, catalog: Catalog) -> Iterator[Candidate]:
        """Narrower types, half the context, a larger share, others' memory."""
        setting = self.setting
        yield from narrower(setting, catalog, ("fp8_e4m3",), ("fp8", "w4a16"))
        yield from shorter(setting)
        yield from released(setting, over=self.held.over)
        if setting.scenario.budget.pool_bytes is None and share_of(setting, self.rules) < _ROOMY:
            change = {"memory_utilization": _ROOMY}
            yield "released", change, setting.with_asked(**change)


def _for_length(setting: Setting, tokens: int) -> Setting:
    """The same with an engine that is started for sequences of that length."""
    return setting._replace(scenario=setting.scenario._replace(context_tokens=tokens, limit_tokens=tokens))
