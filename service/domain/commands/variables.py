"""Variables that a script sets before it starts an engine: what it can be known that they hold."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from service.domain.commands.words import Word, check_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from service.domain.commands.words import Command

_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=", re.ASCII)
_WHOLE_ARRAY = re.compile(r"\$\{(\w+)\[[@*]\]\}", re.ASCII)
_SETTERS = frozenset({"export", "declare", "set", "setx", "readonly", "local", "typeset"})
_OPENING = frozenset({"if", "while", "until", "for", "case", "select"})
_CLOSING = frozenset({"fi", "done", "esac"})
_KEYWORDS = frozenset({"then", "else", "elif", "do", "{", *_OPENING})
_TESTS = frozenset({"[", "[[", "test", "command", "which", "grep", "!"})


def assignments(words: Iterable[Word]) -> Iterator[tuple[str, Word]]:
    """The variables that words set, up to the first that sets none."""
    for word in words:
        found = _ASSIGNMENT.match(word.text)
        if not found:
            return
        yield found[1], Word(word.text[found.end() :], word.expanded, items=word.items)


def named(words: Iterable[Word], known: Mapping[str, Word]) -> dict[str, Word]:
    """Variables of words each on its own, as `-e NAME=value`; those without a value are the ones known outside."""
    found: dict[str, Word] = {}
    for word in words:
        if "=" in word.text:
            found |= dict(assignments([word]))
        elif word.text in known:
            found[word.text] = known[word.text]
    return found


def filled(words: Iterable[Word], variables: Mapping[str, Word]) -> list[Word]:
    """The words with the variables put in that are known, split where a shell would."""
    texts = {name: word.text for name, word in variables.items() if not word.expanded and word.items is None}
    found: list[Word] = []
    for word in words:
        whole = _WHOLE_ARRAY.fullmatch(word.text) if word.expanded else None
        array = variables.get(whole[1]) if whole else None
        if array is not None and array.items is not None:
            found += array.items
            check_count(len(found))
            continue
        known = word.known(texts) if word.expanded else word
        if word.bare and not known.expanded:
            found += map(Word, known.text.split())
        elif word.items is not None:
            found.append(word._replace(items=tuple(filled(word.items, variables))))
        else:
            found.append(known)
    return found


class Scope:
    """What the commands of a script have set so far; what is set under a condition is not known."""

    __slots__ = ("_depth", "_tested", "variables")

    def __init__(self, outer: Mapping[str, Word]) -> None:
        self.variables = dict(outer)
        self._depth = 0
        self._tested = False

    def takes(self, command: Command) -> bool:
        """Take in a command that sets variables and does nothing else; false for all others."""
        first = command[0].text
        guarded = command.after == "||" or (command.after == "&&" and self._tested)
        self._tested = guarded or first in _TESTS
        self._depth = max(0, self._depth + (first in _OPENING) - (first in _CLOSING))
        words: Sequence[Word] = command[1:] if first in _KEYWORDS else command
        if words and words[0].text in _SETTERS:
            words = [word for word in words[1:] if not word.text.startswith("-")]
        pairs = list(assignments(words))
        if not pairs or len(pairs) != len(words):
            return False
        for word, (name, value) in zip(words, pairs, strict=True):
            self._set(name, value, appends=word.text[len(name)] == "+", sure=not (guarded or self._depth))
        return True

    def _set(self, name: str, value: Word, *, appends: bool, sure: bool) -> None:
        values = filled([value], self.variables)
        known = self.variables.get(name)
        if not sure or len(values) != 1 or (appends and known is None):
            self.variables[name] = _unknown(name)
        else:
            self.variables[name] = _joined(known, values[0]) if appends and known else values[0]


def _joined(known: Word, value: Word) -> Word:
    if known.items is None and value.items is None:
        return Word(known.text + value.text, known.expanded + value.expanded)
    if known.expanded:
        return known
    items = (*(known.items or (known,)), *(value.items or ()))
    check_count(len(items))
    return Word("", items=items)


def _unknown(name: str) -> Word:
    """A variable of which nobody can tell what it holds."""
    return Word(f"${name}", (f"${name}",))
