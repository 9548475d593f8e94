r"""Regular expressions of configs, matched in time linear in the text whatever the expression.

A config's lists of modules hold expressions (`re:.*mlp\.gate$`), and a config comes from anybody: Python's own `re`
goes back over its choices and can take for ever. Here an expression becomes a set of states that a text is walked
through once. Known are literals, escapes, classes, groups, alternatives and repetitions, which is what such lists use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final, NoReturn

_MOST_STATES: Final = 2000
_MOST_CHARACTERS: Final = 1000
_MOST_NESTED: Final = 50
_END: Final = ""
"""What is read behind the last character, for `$`."""
_DIGITS = frozenset("0123456789")
_WORD = _DIGITS | frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
_SPACE = frozenset(" \t\n\r\f\v")
_CLASSES: Final = {"d": _DIGITS, "w": _WORD, "s": _SPACE}
_REPETITIONS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_KEPT: Final = 4096
_MOST_KEPT_CHARACTERS: Final = 100

Reads = Callable[[str], bool]


class PatternError(ValueError):
    """An expression that cannot be read, or uses what these lists have no need of."""


class Pattern:
    """An expression that is tried at a text's beginning, as `re.match` does."""

    __slots__ = ("_ends", "_free", "_known", "_reads", "_start", "_steps")

    def __init__(self, expression: str) -> None:
        """Compile it; raises PatternError."""
        self._free: list[list[int]] = [[]]
        self._reads: list[tuple[Reads, int] | None] = [None]
        reader = _Reader(expression, self)
        start, end = reader.whole()
        self._free[end].append(0)
        self._start = self._closed(frozenset({start}))
        self._steps: dict[tuple[frozenset[int], str], frozenset[int]] = {}
        self._known: dict[str, bool] = {}
        # Each `$` in a row reads one.
        self._ends = (_END,) * max(1, expression.count("$"))

    def matches(self, text: str) -> bool:
        """Whether the text begins with what the expression describes; the answers to short texts are kept."""
        known = self._known.get(text)
        if known is None:
            known = self._accepts(text)
            if len(text) <= _MOST_KEPT_CHARACTERS and len(self._known) < _KEPT:
                self._known[text] = known
        return known

    def _accepts(self, text: str) -> bool:
        """Walk through the text; state 0 is the one that accepts."""
        states = self._start
        for character in (*text, *self._ends):
            if 0 in states or not states:
                break
            states = self._step(states, character)
        return 0 in states

    def state(self) -> int:
        """A new state without ways out of it."""
        if len(self._free) > _MOST_STATES:
            raise PatternError("it describes too much")
        self._free.append([])
        self._reads.append(None)
        return len(self._free) - 1

    def reading(self, reads: Reads) -> tuple[int, int]:
        """Two states with a character between them."""
        start, end = self.state(), self.state()
        self._reads[start] = (reads, end)
        return start, end

    def join(self, start: int, end: int) -> None:
        """Let one state lead to another without reading anything."""
        self._free[start].append(end)

    def _step(self, states: frozenset[int], character: str) -> frozenset[int]:
        key = (states, character)
        found = self._steps.get(key)
        if found is None:
            edges = (self._reads[state] for state in states)
            reached = frozenset(edge[1] for edge in edges if edge is not None and edge[0](character))
            if len(self._steps) >= _KEPT:
                self._steps.clear()
            self._steps[key] = found = self._closed(reached)
        return found

    def _closed(self, states: frozenset[int]) -> frozenset[int]:
        seen, waiting = set(states), list(states)
        while waiting:
            for state in self._free[waiting.pop()]:
                if state not in seen:
                    seen.add(state)
                    waiting.append(state)
        return frozenset(seen)


@lru_cache(maxsize=512)
def compiled(expression: str) -> Pattern:
    """The expression compiled, from those at hand; raises PatternError."""
    return Pattern(expression)


class _Reader:
    """Reads an expression from left to right into states."""

    def __init__(self, expression: str, states: Pattern) -> None:
        if len(expression) > _MOST_CHARACTERS:
            raise PatternError(f"it has more than {_MOST_CHARACTERS} characters")
        self._text = expression
        self._at = 0
        self._depth = 0
        self._states = states

    def whole(self) -> tuple[int, int]:
        part = self._alternatives()
        if self._at < len(self._text):
            self._refuse("a bracket closes that was never opened")
        return part

    def _alternatives(self) -> tuple[int, int]:
        parts = [self._sequence()]
        while self._taken("|"):
            parts.append(self._sequence())
        if len(parts) == 1:
            return parts[0]
        start, end = self._states.state(), self._states.state()
        for first, last in parts:
            self._states.join(start, first)
            self._states.join(last, end)
        return start, end

    def _sequence(self) -> tuple[int, int]:
        start = end = self._states.state()
        while self._next() not in {"", "|", ")"}:
            first, last = self._repeated()
            self._states.join(end, first)
            end = last
        return start, end

    def _repeated(self) -> tuple[int, int]:
        began = self._at
        part = self._one()
        least_most = self._repetition()
        if least_most is None:
            return part
        if self._next() in _REPETITIONS:
            self._refuse("a repetition cannot be repeated")
        return self._times(part, began, *least_most)

    def _repetition(self) -> tuple[int, int | None] | None:
        sign = self._next()
        if sign == "{":
            self._refuse("counted repetitions are not known")
        if sign not in _REPETITIONS:
            return None
        self._at += 1
        # A lazy or possessive repetition describes the same texts to us, who only ask whether there is one.
        if self._next() in {"?", "+"}:
            self._at += 1
        return _REPETITIONS[sign]

    def _times(self, part: tuple[int, int], began: int, least: int, most: int | None) -> tuple[int, int]:
        if self._text[began] in "^$":
            self._refuse("an anchor cannot be repeated")
        start, end = self._states.state(), self._states.state()
        self._states.join(start, part[0])
        self._states.join(part[1], end)
        if least == 0:
            self._states.join(start, end)
        if most is None:
            self._states.join(part[1], part[0])
        return start, end

    def _one(self) -> tuple[int, int]:
        sign = self._next()
        self._at += 1
        if sign == "(":
            return self._group()
        if sign == "[":
            return self._states.reading(self._class())
        if sign == "\\":
            return self._states.reading(_among(self._escaped()))
        if sign == ".":
            return self._states.reading(lambda character: character not in {_END, "\n"})
        if sign in _REPETITIONS:
            self._refuse("there is nothing to repeat")
        return self._anchor(sign) if sign in {"^", "$"} else self._states.reading(_among(frozenset(sign)))

    def _anchor(self, sign: str) -> tuple[int, int]:
        if sign == "$":
            return self._states.reading(lambda character: character == _END)
        if self._at > 1:
            self._refuse("^ is known at the beginning alone")
        state = self._states.state()
        return state, state

    def _group(self) -> tuple[int, int]:
        if self._taken("?") and not self._taken(":"):
            self._refuse("only plain groups are known, no conditions")
        self._depth += 1
        if self._depth > _MOST_NESTED:
            self._refuse("its groups are nested too deep")
        part = self._alternatives()
        if not self._taken(")"):
            self._refuse("a group does not end")
        self._depth -= 1
        return part

    def _class(self) -> Reads:
        negated = self._taken("^")
        members = frozenset[str]().union(*self._members())
        if negated:
            return lambda character: character != _END and character not in members
        return _among(members)

    def _members(self) -> Iterator[frozenset[str]]:
        first = True
        while first or self._next() != "]":
            first = False
            sign = self._next() or self._refuse("a class does not end")
            self._at += 1
            single = self._escaped() if sign == "\\" else frozenset(sign)
            yield self._range(sign) if self._ranges() else single
        self._at += 1

    def _ranges(self) -> bool:
        return self._next() == "-" and self._text[self._at + 1 : self._at + 2] not in {"", "]"}

    def _range(self, low: str) -> frozenset[str]:
        high = self._text[self._at + 1]
        self._at += 2
        if low == "\\" or high == "\\" or not low <= high <= "\x7f":
            self._refuse("a range goes from one plain character to a later one")
        return frozenset(map(chr, range(ord(low), ord(high) + 1)))

    def _escaped(self) -> frozenset[str]:
        sign = self._next()
        self._at += 1
        if sign in _CLASSES:
            return _CLASSES[sign]
        if not sign or sign.isalnum():
            self._refuse("it has an escape that is not known")
        return frozenset(sign)

    def _next(self) -> str:
        return self._text[self._at : self._at + 1]

    def _taken(self, sign: str) -> bool:
        if self._next() != sign:
            return False
        self._at += 1
        return True

    def _refuse(self, why: str) -> NoReturn:
        raise PatternError(why)


def _among(characters: frozenset[str]) -> Reads:
    return lambda character: character in characters
