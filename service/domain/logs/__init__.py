"""What an engine's start-up log says, in our words: bytes, tokens, settings, each with its line and its process.

A package of its own: it imports nothing but the standard library and itself, so that a probe can carry it along.
Formats of releases are data, one module an engine; `lines` undoes what carried a line here, `starts` keeps apart what
belongs to one start, `decide` says which of several values holds or that none can be told.
"""

from __future__ import annotations

from .reader import ENGINES, LOOKED_FOR, read, read_text
from .words import NAMES, OF_A_RANK, OF_THE_ENGINE, LeftOut, LogReading, Rank, Refusal, Said

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
