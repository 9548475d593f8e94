r"""The regular expressions of --override-tensor: as much of them as names of tensors are chosen by.

Literals, escapes, `.`, `\d`, classes, groups, alternatives, anchors at the ends, and `*`, `+` and `?` behind a single
character. All places of all names that can be matched up to are followed at once, each a bit of one number, so that no
pattern takes more steps than its length times that of a name; of all steps together there is a limit.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST: Final = 200
_MOST_REPEATED: Final = 6
_DEEPEST: Final = 4
_PLAIN: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-/")
_DIGITS: Final = frozenset("0123456789")
_SYMBOLS: Final = frozenset(".-_/()[]{}*+?|^$\\")


class PatternError(ValueError):
    """A pattern that is not followed; the message says why."""


class Names:
    """Names as patterns are followed in them: one text, in which a line ends each, and bits for where characters stand.

    `steps` are left for all patterns together.
    """

    def __init__(self, names: Sequence[str], steps: int) -> None:
        self.names, self.steps = tuple(names), steps
        text = "".join(f"{name}\n" for name in self.names)
        backwards = text.encode("ascii")[::-1]
        self.ends = _bits(backwards, "\n")
        self.starts = (self.ends << 1 | 1) & ((1 << len(text)) - 1)
        self.anywhere = (1 << len(text)) - 1
        self.inside = self.anywhere & ~self.ends
        self.places = {sign: _bits(backwards, sign) for sign in set(text) - {"\n"}}

    def fits(self, allowed: frozenset[str] | None) -> int:
        """Where one of these characters stands; takes a step, and raises PatternError where none is left."""
        self.take()
        if allowed is None:
            return self.inside
        found = 0
        for sign in allowed & self.places.keys():
            found |= self.places[sign]
        return found

    def take(self) -> None:
        """Take a step; raises PatternError where none is left."""
        self.steps -= 1
        if self.steps < 0:
            raise PatternError("takes too long to follow")

    def at(self, places: int) -> frozenset[str]:
        """The names that have one of these places, or end there."""
        bits, found, start = f"{places:b}"[::-1], set(), 0
        for name in self.names:
            if bits.find("1", start, start + len(name) + 1) >= 0:
                found.add(name)
            start += len(name) + 1
        return frozenset(found)


def _bits(backwards: bytes, sign: str) -> int:
    """A bit for each place of a character, the last one of the text as it is given the lowest."""
    return int(backwards.translate(bytes(b"01"[each == ord(sign)] for each in range(256))) or b"0", 2)


class Characters(NamedTuple):
    """One character of a set, or any where it is None, so many times: `?`, `*`, `+` or once where it is empty."""

    allowed: frozenset[str] | None
    times: str


class Either(NamedTuple):
    """One of several sequences."""

    sequences: tuple[Sequence[Node], ...]


Node: TypeAlias = Characters | Either


class Pattern(NamedTuple):
    """A pattern that is found anywhere in a name, unless it is held at its `first` or `last` character."""

    nodes: Either
    first: bool
    last: bool

    def matched(self, names: Names) -> frozenset[str]:
        """The names that hold it; raises PatternError where that takes too long."""
        ends = _either(self.nodes, names, names.starts if self.first else names.anywhere)
        return names.at(ends & names.ends if self.last else ends)


@lru_cache(maxsize=256)
def read_pattern(text: str) -> Pattern:
    """Read a pattern; raises PatternError for what is not followed."""
    if not 0 < len(text) <= _LONGEST:
        raise PatternError(f"has not 1 to {_LONGEST} characters")
    first, last = text.startswith("^"), text.endswith("$") and not text.endswith("\\$")
    reader = _Reader(text[first : len(text) - last])
    nodes = reader.either(0)
    if reader.at < len(reader.text):
        raise PatternError("has a bracket too much")
    if (first or last) and len(nodes.sequences) > 1:
        raise PatternError("holds one of several at an end")
    return Pattern(nodes, first, last)


class _Reader:
    """One pass over the text of a pattern."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.repeated = text, 0, 0

    def either(self, depth: int) -> Either:
        if depth > _DEEPEST:
            raise PatternError("has too many brackets within each other")
        found: list[list[Node]] = [[]]
        while self.at < len(self.text) and self.text[self.at] != ")":
            if self.text[self.at] == "|":
                self.at += 1
                found.append([])
            else:
                found[-1].append(self._node(depth))
        return Either(tuple(map(tuple, found)))

    def _node(self, depth: int) -> Node:
        if self.text[self.at] != "(":
            return Characters(self._allowed(), self._times())
        self.at += 3 if self.text.startswith("(?:", self.at) else 1
        inner = self.either(depth + 1)
        if self.at >= len(self.text):
            raise PatternError("lacks a bracket")
        self.at += 1
        if self._times():
            raise PatternError("repeats a group")
        return inner

    def _times(self) -> str:
        sign = self.text[self.at : self.at + 1]
        if sign == "" or sign not in "*+?":
            return ""
        self.at += 1
        self.repeated += 1
        if self.repeated > _MOST_REPEATED or self.text[self.at : self.at + 1] in {"*", "+", "?"}:
            raise PatternError("repeats too much")
        return sign

    def _allowed(self) -> frozenset[str] | None:
        sign = self.text[self.at]
        self.at += 1
        if sign == ".":
            return None
        if sign == "[":
            return self._class()
        if sign == "\\":
            return self._escaped()
        if sign not in _PLAIN:
            raise PatternError(f"has {sign!r}, which is not followed")
        return frozenset(sign)

    def _escaped(self) -> frozenset[str]:
        sign = self.text[self.at : self.at + 1]
        self.at += 1
        if sign == "d":
            return _DIGITS
        if sign not in _SYMBOLS:
            raise PatternError(f"has an escaped {sign!r}, which is not followed")
        return frozenset(sign)

    def _class(self) -> frozenset[str]:
        end = self.text.find("]", self.at)
        inner = self.text[self.at : end]
        if end < 0 or not inner or not set(inner) <= _PLAIN | {"."}:
            raise PatternError("has a class that is not followed")
        self.at = end + 1
        found: set[str] = set()
        at = 0
        while at < len(inner):
            until = inner[at + 2] if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner) else inner[at]
            found |= set(map(chr, range(ord(inner[at]), ord(until) + 1)))
            at += 3 if inner[at + 1 : at + 2] == "-" and at + 2 < len(inner) else 1
        return frozenset(found)


def _either(node: Either, names: Names, starts: int) -> int:
    ends = 0
    for sequence in node.sequences:
        places = starts
        for each in sequence:
            places = _either(each, names, places) if isinstance(each, Either) else _characters(each, names, places)
            if not places:
                break
        ends |= places
    return ends


def _characters(node: Characters, names: Names, starts: int) -> int:
    fits = names.fits(node.allowed)
    once = (starts & fits) << 1
    if not node.times:
        return once
    ends = once if node.times == "+" else once | starts
    while node.times != "?":
        more = ends | (ends & fits) << 1
        if more == ends:
            break
        names.take()
        ends = more
    return ends
