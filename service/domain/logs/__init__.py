"""What an engine's start-up log says, in our words: bytes, tokens, settings, each with its line and its process.

A package of its own: it imports nothing but the standard library and itself, so that a probe can carry it along.
Formats of releases are data, one module an engine; `lines` undoes what carried a line here, `starts` keeps apart what
belongs to one start, `decide` says which of several values holds or that none can be told. All of that is imported
when it is first asked for: the formats of seven engines take a quarter of Flask's time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .words import NAMES, OF_A_RANK, OF_THE_ENGINE, LeftOut, LogReading, Rank, Refusal, Said

if TYPE_CHECKING:
    from .reader import ENGINES, LOOKED_FOR, read, read_text

__all__ = [
    "ENGINES",
    "LOOKED_FOR",
    "NAMES",
    "OF_A_RANK",
    "OF_THE_ENGINE",
    "LeftOut",
    "LogReading",
    "Rank",
    "Refusal",
    "Said",
    "read",
    "read_text",
]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from . import reader  # noqa: PLC0415

    return getattr(reader, name)
