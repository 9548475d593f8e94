"""What an engine holds of a question, in the terms that every answer needs: one interface, one class an engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from service.domain.loads import RankLoad
    from service.domain.question import Catalog, Question


class Holding(ABC):
    """One replica of a question's deployment, on its limiting rank; sizes in bytes."""

    question: Question
    load: RankLoad
    """The limiting rank: what it holds of the weights and of each sequence."""
    sequences: int
    running: int
    """Sequences that memory and the engine's own limit let run at once."""
    concurrency: float
    capacity_tokens: int
    starts: bool
    pool_bytes: int
    blocks: int | None
    block_tokens: int | None
    groups: int | None
    longest_context: int | None
    longest_limit: int | None

    def forget_strangers(self) -> None:
        """Null, in the question that the answer repeats, what the engine has not: it refuses to be asked of it."""
        echo = self.question.echo
        # A command is no name of an engine, and `asked` has what it set in its place.
        for name in echo.values.keys() - self.question.engine.takes - echo.asked.keys() - {"command"}:
            echo.values[name] = None

    def as_kept(self, load: RankLoad) -> RankLoad:
        """A load as this engine keeps its caches; as their shapes say unless the engine has its own mind."""
        return load

    @abstractmethod
    def fits(self, sequences: int, context_tokens: int) -> bool:
        """Whether a replica holds so many sequences of that length, whatever it is started for."""

    def keeps(self, change: Mapping[str, Any]) -> bool:  # noqa: ARG002  # what an engine may override
        """Whether the ceiling of a lever is sure to come true, so that nobody need ask its question to see."""
        return False

    def fits_ranks(self, tensor: int, sequences: int) -> bool | None:  # noqa: ARG002  # what an engine may override
        """Whether a replica of so many tensor-parallel ranks starts and holds so many sequences.

        None where only the question asked again can tell, since ranks change other defaults of the engine.
        """
        return None

    @abstractmethod
    def ledger(self) -> dict[str, Any]:
        """The limiting rank's memory in parts that add up to the byte."""

    @abstractmethod
    def constraint(self) -> str:
        """What stops one more sequence, or the start."""

    @abstractmethod
    def gain_bytes(self) -> int:
        """Bytes missing for one more sequence."""

    @abstractmethod
    def shortage_bytes(self, sequences: int) -> tuple[int, int]:
        """What the limiting rank needs for so many sequences, and what it has."""

    @abstractmethod
    def interval(self) -> dict[str, Any]:
        """What the evidence allows for cache, concurrency and ceiling."""

    @abstractmethod
    def explain(self) -> list[str]:
        """Add to the question's assumptions and warnings; the arithmetic line by line."""

    def untimed(self) -> Iterable[str]:
        """Warnings of `explain` on what times leave out, for an answer that has times and no ledger."""
        return ()

    @abstractmethod
    def levers(self, catalog: Catalog, ceiling: int) -> list[dict[str, Any]]:
        """Every change that raises the ceiling of the whole deployment, the most first."""


def hold(question: Question) -> Holding:
    """Let the question's engine hold it."""
    return _holding(question.engine.name)(question)


def import_engines() -> None:
    """Import the rules of every engine now: for a process that others are forked from."""
    for engine in _HOLDINGS:
        _holding(engine)


@cache
def _holding(engine: str) -> Callable[[Question], Holding]:
    """The engine's own; it builds on this module, so it is imported when the first question is held."""
    module, name = _HOLDINGS[engine]
    return cast("Callable[[Question], Holding]", getattr(import_module(f"service.domain.engines.{module}"), name))


_HOLDINGS: Mapping[str, tuple[str, str]] = {
    "llama.cpp": ("llama_cpp.holding", "LlamaCppHolding"),
    "none": ("plain_holding", "PlainHolding"),
    "sglang": ("sglang.holding", "SglangHolding"),
    "tensorrt-llm": ("tensorrt_llm.holding", "TensorrtLlmHolding"),
    "vllm": ("vllm.holding", "VllmHolding"),
}
