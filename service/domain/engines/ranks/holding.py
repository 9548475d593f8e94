"""A question to an engine that gives each rank a budget, in the terms of every answer."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from service.domain.engines.ranks.levers import Candidate, levers
from service.domain.engines.ranks.setting import setting_of
from service.domain.explain import sources, weights_note
from service.domain.holding import Holding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from service.domain.engines.ranks.held import Held, Rank
    from service.domain.engines.ranks.setting import Setting
    from service.domain.ledger import Budget
    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question

_Size = TypeVar("_Size", int, float)
_ALWAYS_SHOWN = frozenset({"weights", "kv_cache", "unused"})
_GIVEN_BASIS = "a cache of the given size, nothing modelled"


class RanksHolding(Holding):
    """What follows from ranks and pools alone; an engine adds how it holds a setting and what it has to say."""

    basis: str
    """What the ends of the interval stand on."""

    def __init__(self, question: Question) -> None:
        """Hold the question, and note what the engine filled in."""
        self.question = question
        self.setting = setting_of(question)
        self.held = held = self.hold(self.setting)
        self.load = held.rank.load
        self.sequences, self.running = held.sequences, held.running
        self.concurrency, self.capacity_tokens = held.concurrency, held.capacity_tokens
        self.starts = held.starts
        self.pool_bytes = self._cache_bytes()
        pool = held.rank.pool
        self.blocks, self.block_tokens, self.groups = pool.blocks(held.rank.pool_bytes), pool.blocks_of, pool.groups
        self.longest_context = self.longest_limit = self.longest()
        self._echo()

    @abstractmethod
    def hold(self, setting: Setting) -> Held:
        """Hold a setting by the engine's rules; raises QuoteError for what it has no meaning for."""

    def longest(self) -> int | None:
        """The longest single sequence that every rank holds; None where length takes no more."""
        return self.held.longest

    @abstractmethod
    def filled_in(self) -> Iterator[tuple[str, Any, str]]:
        """Settings of the engine that its release filled in: name, value, source."""

    @abstractmethod
    def candidates(self, catalog: Catalog) -> Iterator[Candidate]:
        """Changes worth trying, each with the setting it gives."""

    @abstractmethod
    def kept(self, load: RankLoad) -> RankLoad:
        """A load as the engine keeps its caches."""

    def as_kept(self, load: RankLoad) -> RankLoad:
        """A load as this engine keeps its caches."""
        return self.kept(load)

    def _echo(self) -> None:
        echo = self.question.echo
        echo.take("engine_version", self.held.terms.version)
        for name, value, source in self.filled_in():
            if name not in echo.asked:
                echo.values[name], echo.taken[name] = value, source
        learned = self.held.rank.correction.probes
        echo.take("reserve_bytes", self.held.rank.reserve_bytes, "calibrated" if learned else "modelled")
        self.forget_strangers()

    @property
    def budget(self) -> Budget:
        """What the limiting rank has, where devices differ."""
        return self.setting.scenario.budget_of(self.held.rank.load.index)

    def _cache_bytes(self) -> int:
        given = self.setting.scenario.budget.pool_bytes
        rank = self.held.rank
        return rank.pool.allocated(rank.pool_bytes) if given is None else given

    def fits(self, sequences: int, context_tokens: int) -> bool:
        """Whether every rank's pool holds them."""
        return self.held.fits(sequences, context_tokens)

    def ledger(self) -> dict[str, Any]:
        """The limiting rank's memory in parts that add up to the byte; what rounding leaves is unused."""
        budget, known = self.budget, sources(self.question)
        known |= {f"reserve.{part.name}": part.source for part in self.held.rank.parts if part.name}
        over, rows = self.held.rank.over_bytes, self._rows()
        left = budget.memory_bytes + over - sum(size for _, size, _ in rows)
        return {
            "memory_bytes": budget.memory_bytes,
            "overcommitted_bytes": over,
            "parts": [
                {"name": name, "bytes": size, "source": known.get(name, _source(name)), "note": note}
                for name, size, note in (*rows, ("unused", left, "left by rounding"))
                if size or name in _ALWAYS_SHOWN
            ],
        }

    def _rows(self) -> list[tuple[str, int, str]]:
        rank, budget = self.held.rank, self.budget
        reserve = [(f"reserve.{part.name}".rstrip("."), part.middle, part.note) for part in rank.parts]
        states = rank.pool.states(rank.pool_bytes)
        if states:
            reserve.append(("reserve.state", states, "recurrent state in a pool of its own"))
        return [
            ("weights", rank.load.weight_bytes, self._weights_note()),
            *reserve,
            ("kv_cache", self.pool_bytes, "as asked" if budget.pool_bytes is not None else self.pool_note(rank)),
            ("others", budget.others_bytes, "held by other processes"),
            ("outside_budget", rank.held_back_bytes, self.held_back_note()),
        ]

    def pool_note(self, rank: Rank) -> str:
        """How the size of the pool comes about."""
        return f"{rank.pool.tokens(rank.pool_bytes):,} tokens"

    def held_back_note(self) -> str:
        """Why the engine leaves memory free."""
        return "held back by memory_utilization"

    def constraint(self) -> str:
        """What stops the start or one more sequence, in the words of the contract."""
        held, rank, budget = self.held, self.held.rank, self.budget
        if rank.over_bytes:
            room = budget.memory_bytes - rank.held_back_bytes
            if rank.load.weight_bytes > room:
                return "weights"
            if rank.load.weight_bytes + budget.others_bytes > room:
                return "free_memory"
            return "reserve" if budget.pool_bytes is None else "kv_cache"
        if held.sequences and not held.starts:
            return "context_limit"
        return "sequence_limit" if held.sequences > held.running else "kv_cache"

    def gain_bytes(self) -> int:
        """What one more sequence needs beside what the cache has."""
        rank = self.held.rank
        return max(0, self.held.needed(self.held.sequences + 1) - rank.pool_bytes) + rank.over_bytes

    def shortage_bytes(self, sequences: int) -> tuple[int, int]:
        """Of the limiting rank, or of a cache whose size the question fixed; at least what the engine starts with."""
        rank, budget = self.held.rank, self.budget
        cache = self.held.needed(sequences)
        if self.held.terms.needs_limit:
            cache = max(cache, rank.pool.limit_needed(self.setting.scenario.limit_tokens))
        if budget.pool_bytes is not None and not rank.over_bytes:
            return cache, budget.pool_bytes
        needed = rank.load.weight_bytes + rank.reserve_bytes + max(cache, budget.pool_bytes or 0)
        return needed, max(0, budget.memory_bytes - budget.others_bytes - rank.held_back_bytes)

    def interval(self) -> dict[str, Any]:
        """From the spread of the evidence behind each modelled part."""
        given, data = self.setting.scenario.budget.pool_bytes, self.setting.scenario.layout.data
        # One more slot for a state takes its bytes from tokens, so that a larger budget may hold fewer of them.
        ends = [self.held] if given is not None else [self._shifted(-1), self.held, self._shifted(1)]
        return {
            "kv_cache_bytes": [self.pool_bytes] * 2 if given is not None else _span([_allocated(end) for end in ends]),
            "max_concurrency": _span([end.concurrency for end in ends]),
            "max_sequences": _span([end.sequences * data for end in ends]),
            "basis": self._basis() if given is None else _GIVEN_BASIS,
        }

    def _basis(self) -> str:
        learned = self.held.rank.correction
        return learned.basis if learned.probes else self.basis

    def _shifted(self, way: int) -> Held:
        """The same with every rank's budget at one end of what the evidence allows."""
        ranks = tuple(_shift(rank, way) for rank in self.held.ranks)
        at = self.held.ranks.index(self.held.rank)
        return replace(self.held, ranks=ranks, rank=ranks[at])

    def explain(self) -> list[str]:
        """What is taken for granted of the engine, and its arithmetic."""
        held = self.held
        self.question.assumptions += held.terms.assumptions
        self.question.warnings += held.terms.warnings
        context, lines = self.setting.scenario.context_tokens, []
        if self.setting.scenario.layout.gpus > 1:
            lines.append(f"rank {self.load.index} of a replica, on pipeline stage {self.load.stage}, fills first")
        lines += [self._budget_line(), *self.pool_lines(held.rank)]
        lines.append(f"{held.sequences:,} sequences of {context:,} tokens at once in a replica")
        return lines

    def _budget_line(self) -> str:
        rank, budget = self.held.rank, self.budget
        if budget.pool_bytes is not None:
            return f"{budget.pool_bytes:,} B for the cache, as asked"
        names = {
            "weights": rank.load.weight_bytes,
            **{part.name: part.middle for part in rank.parts},
            "held by others": budget.others_bytes,
            "held back": rank.held_back_bytes,
        }
        taken = "".join(f" - {size:,} B {name}" for name, size in names.items() if size)
        left = f"{rank.over_bytes:,} B too much" if rank.over_bytes else f"{rank.budget_bytes:,} B for the cache"
        return f"{budget.memory_bytes:,} B of memory{taken} = {left}"

    @abstractmethod
    def pool_lines(self, rank: Rank) -> Iterator[str]:
        """How the cache's bytes become tokens, one step a line."""

    def _weights_note(self) -> str:
        """The checkpoint's own arithmetic, and what loading adds to it or leaves on the host."""
        note, loads = weights_note(self.question, self.load.index), self.setting.loads()
        added = self.load.weight_bytes - loads[0].weight_bytes if len(loads) == 1 else 0
        if not added:
            return note
        return f"{note} + {added:,} B that loading adds" if added > 0 else f"{note} - {-added:,} B left on the host"

    def levers(self, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
        """Every change that raises the ceiling of the whole deployment, the most first."""
        return levers(self.candidates(catalog), self.hold, ceiling)


def _shift(rank: Rank, way: int) -> Rank:
    less, more = rank.spread()
    return replace(rank, budget_bytes=max(0, rank.budget_bytes + (more if way > 0 else -less)))


def _span(sizes: list[_Size]) -> list[_Size]:
    return [min(sizes), max(sizes)]


def _allocated(held: Held) -> int:
    return held.rank.pool.allocated(held.rank.pool_bytes)


def _source(name: str) -> str:
    return "modelled" if name.startswith("reserve.") else "derived"
