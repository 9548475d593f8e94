"""Everything a question can be refused for, as classes with a stable code that the web layer maps to a problem type.

QuoteError
├── ValidationError       a value that cannot be
├── UnknownModel          no model of that name
├── UnknownGpu            no device of that name
├── NotSupported          a name that is known, with a meaning that this release does not have
├── UnknownArchitecture   no reader knows the published config
├── ConfigError           a published config that contradicts itself or lacks what its reader needs
├── CatalogFactError      a catalog entry that cannot be read
└── CatalogUnavailable    the catalog was never loaded, or its database is away
"""

from __future__ import annotations

import difflib
import heapq
from collections.abc import Iterable
from functools import lru_cache
from itertools import pairwise
from typing import ClassVar, NamedTuple

_NEAREST = 3
_POINTER_CHARACTERS = 64
_NAMES_COMPARED = 5
_CHARACTERS_COMPARED = 80
_LEAST_LIKENESS = 0.5


class Fault(NamedTuple):
    """One thing wrong: a JSON pointer into the question, a sentence, and the names that were perhaps meant."""

    pointer: str
    detail: str
    nearest: tuple[str, ...] = ()


class QuoteError(Exception):
    """Base of all refusals; carries every fault found, never only the first."""

    code: ClassVar[str] = "validation-error"
    title: ClassVar[str] = "The question cannot be answered"

    def __init__(self, *faults: Fault) -> None:
        """Keep the faults; the message is their sentences."""
        super().__init__(" ".join(fault.detail for fault in faults))
        self.faults = faults

    @classmethod
    def at(cls, pointer: str, detail: str, nearest: tuple[str, ...] = ()) -> QuoteError:
        """Build the error from one fault."""
        return cls(Fault(pointer, detail, nearest))

    @property
    def detail(self) -> str:
        """All faults in one line."""
        return str(self)


class ValidationError(QuoteError):
    """A value that is out of range or contradicts another."""

    code = "validation-error"
    title = "The question contradicts itself or leaves its range"


class UnknownModel(QuoteError):
    """No model in the catalog has that name."""

    code = "unknown-model"
    title = "No model has that name"


class UnknownGpu(QuoteError):
    """No device in the catalog has that name."""

    code = "unknown-gpu"
    title = "No GPU has that name"


class NotSupported(QuoteError):
    """The name is part of the contract, but this release or this engine has no meaning for it."""

    code = "not-supported"
    title = "Not supported"


class UnknownArchitecture(QuoteError):
    """No reader knows the model type of a published config."""

    code = "unknown-architecture"
    title = "No reader knows this architecture"


class ConfigError(QuoteError):
    """A published config lacks a field its reader needs, or its fields contradict each other."""

    code = "invalid-config"
    title = "The config cannot be read"


class CatalogFactError(QuoteError):
    """A catalog entry that cannot be turned into what it describes."""

    code = "invalid-catalog-entry"
    title = "The catalog entry cannot be read"


class CatalogUnavailable(QuoteError):
    """No catalog was ever loaded in this process."""

    code = "catalog-unavailable"
    title = "The catalog is not available"


def nearest(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """The known names closest to a mistyped one, best first, at most three.

    Only names that share most pairs of letters with it are compared letter by letter, which takes far longer.
    """
    asked = name.casefold()[:_CHARACTERS_COMPARED]
    pairs = _pairs(asked)
    likely = heapq.nlargest(_NAMES_COMPARED, known, key=lambda other: _likeness(pairs, _known_pairs(other)))
    # As difflib.get_close_matches does, which compares each name twice.
    matcher = difflib.SequenceMatcher(b=asked)
    ratios = []
    for other in likely:
        matcher.set_seq1(other)
        ratios.append((matcher.ratio(), other))
    return tuple(other for ratio, other in heapq.nlargest(_NEAREST, ratios) if ratio >= _LEAST_LIKENESS)


def pointer_step(name: str) -> str:
    """A member's name as a step of a JSON pointer (RFC 6901), cut where it is longer than anybody needs to see."""
    return name[:_POINTER_CHARACTERS].replace("~", "~0").replace("/", "~1")


def a_letter_away(name: str, other: str) -> bool:
    """Whether a name is another one with a letter too many, too few, wrong, or in its neighbour's place."""
    same = next((place for place, (one, two) in enumerate(zip(name, other, strict=False)) if one != two), None)
    place = min(len(name), len(other)) if same is None else same
    rest, left = name[place:], other[place:]
    swapped = rest[:2] == left[:2][::-1] and rest[2:] == left[2:]
    return name != other and (swapped or rest[1:] in {left, left[1:]} or rest == left[1:])


def _pairs(name: str) -> frozenset[str]:
    """Two letters in a row, the blanks around the name included."""
    padded = f" {name} "
    return frozenset(map("".join, pairwise(padded)))


# Only of names that are ours: what clients send must not fill it.
_known_pairs = lru_cache(maxsize=4096)(_pairs)


def _likeness(asked: frozenset[str], other: frozenset[str]) -> float:
    return len(asked & other) / (len(asked) + len(other))
