"""Names to ids: slugs, hub ids and aliases in any case, and what is nearest to a name that nothing answers to."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TypeAlias

_NEAREST: Final = 3
_LONGEST_COMPARED: Final = 64
_LEAST_LIKENESS: Final = 0.25

# What bounds the search among 10^5 names: how many look-ups of trigrams it follows, and how many names it compares.
_HITS_FOLLOWED: Final = 1000
_NAMES_COMPARED: Final = 12

# Where a word ends in a number: `llama3` is as near to `llama-3` as can be.
_NUMBER: Final = re.compile(r"(?<=[a-z])(?=[0-9])")

# One id as itself: nearly every name has one, and a tuple around each of 10^5 would take 5 MB.
_Meaning: TypeAlias = str | tuple[str, ...]


def fold(name: str) -> str:
    """The form names are compared in: without case, and composed as NFC does."""
    if name.isascii():
        return name.casefold()
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def last_part(name: str) -> str:
    """What follows the owner in a hub id."""
    return name.rpartition("/")[2]


def stated_names(entry_id: str, facts: Mapping[str, Any]) -> list[str]:
    """All names an entry lays claim to, folded: its id, its aliases and its hub id."""
    names = [entry_id, *(facts.get("aliases") or ()), *([facts["hub_id"]] if facts.get("hub_id") else ())]
    return list(dict.fromkeys(fold(name) for name in names))


def implied_names(names: list[str]) -> list[str]:
    """What people make of an entry's names: hub ids without their owner, and without the `-hf` of a converted one."""
    parts = [last_part(name) for name in names]
    shorter = [part.removesuffix("-hf") for part in parts]
    return [name for name in dict.fromkeys((*parts, *shorter)) if name and name not in names]


class NameIndex:
    """Names of one kind of entry, beside their ids.

    A name stated by an entry goes before the last part of one with an owner, which several owners may use.
    """

    __slots__ = ("_implied", "_stated")

    def __init__(
        self, stated: Mapping[str, _Meaning] | None = None, implied: Mapping[str, _Meaning] | None = None
    ) -> None:
        self._stated = dict(stated or {})
        self._implied = dict(implied or {})

    def copy(self) -> NameIndex:
        """One that can change without this one noticing."""
        return NameIndex(self._stated, self._implied)

    def add(self, entry_id: str, facts: Mapping[str, Any]) -> None:
        """Let the names in those facts lead to the id."""
        for names, name in self._claims(entry_id, facts):
            ids = _ids(names.get(name))
            if entry_id not in ids:
                names[name] = _packed(sorted((*ids, entry_id)))

    def remove(self, entry_id: str, facts: Mapping[str, Any]) -> None:
        """Undo `add` with the same facts."""
        for names, name in self._claims(entry_id, facts):
            rest = [other for other in _ids(names.get(name)) if other != entry_id]
            if rest:
                names[name] = _packed(rest)
            else:
                names.pop(name, None)

    def find(self, folded: str) -> tuple[str, ...]:
        """Ids that a folded name may mean: none, one, or several where it is ambiguous."""
        return _ids(self._stated.get(folded)) or _ids(self._implied.get(folded))

    def stated(self, folded: str) -> tuple[str, ...]:
        """Ids of the entries that lay claim to a folded name; of one that has it as its id only where `add` kept it."""
        return _ids(self._stated.get(folded))

    def containing(self, folded: str) -> set[str]:
        """Ids of the entries that state a name with that text in it; the ids themselves are not looked at."""
        return {entry_id for name, meant in self._stated.items() if folded in name for entry_id in _ids(meant)}

    def __iter__(self) -> Iterator[str]:
        return iter(self._stated)

    def _claims(self, entry_id: str, facts: Mapping[str, Any]) -> Iterator[tuple[dict[str, _Meaning], str]]:
        names = stated_names(entry_id, facts)
        # The id is a key of the entries themselves; kept here only where that would not find it.
        yield from ((self._stated, name) for name in names if name != entry_id)
        yield from ((self._implied, name) for name in implied_names(names))


class NearestNames:
    """Finds names that share letters with a mistyped one, in about a fifth of a millisecond at any catalog's size.

    Comparing with each of 10^5 names takes seconds. This keeps, for each three letters in a row, the names that hold
    them, and follows the rarest first. Names are only ever added: the caller says which of them still stand.
    """

    __slots__ = ("_holders", "_names")

    def __init__(self, names: Iterable[str] = ()) -> None:
        self._names: list[str] = []
        self._holders: dict[str, array[int]] = {}
        for name in names:
            self.add(name)

    def add(self, folded: str) -> None:
        """Take up a name."""
        number = len(self._names)
        self._names.append(folded)
        for trigram in _trigrams(folded):
            holders = self._holders.get(trigram)
            if holders is None:
                holders = self._holders[trigram] = array("I")
            holders.append(number)

    def search(self, folded: str, meaning: Callable[[str], str | None]) -> tuple[str, ...]:
        """At most three ids, most alike first; `meaning` gives the id of a name, None for one that is gone."""
        wanted = _trigrams(folded)
        unlike = sorted((-_likeness(wanted, name), name) for name in self._candidates(wanted))
        found: list[str] = []
        for unlikeness, name in unlike:
            if len(found) == _NEAREST or -unlikeness < _LEAST_LIKENESS:
                break
            entry_id = meaning(name)
            if entry_id is not None and entry_id not in found:
                found.append(entry_id)
        return tuple(found)

    def _candidates(self, wanted: frozenset[str]) -> list[str]:
        parts, left = [], _HITS_FOLLOWED
        # In the order of the alphabet first: a set's own differs from one process to the next.
        known = (self._holders[trigram] for trigram in sorted(wanted) if trigram in self._holders)
        for holders in sorted(known, key=len):
            parts.append(holders[:left])
            left -= len(parts[-1])
        hits = Counter(chain.from_iterable(parts))
        # Of as many in common the shortest names: those are the most alike.
        most = sorted(hits.values(), reverse=True)[:_NAMES_COMPARED]
        near = [(-count, len(self._names[number]), number) for number, count in hits.items() if count >= most[-1]]
        return [self._names[number] for _, _, number in sorted(near)[:_NAMES_COMPARED]]


def _ids(value: _Meaning | None) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else value


def _packed(ids: list[str]) -> _Meaning:
    return ids[0] if len(ids) == 1 else tuple(ids)


def _trigrams(folded: str) -> frozenset[str]:
    """Three letters in a row, word separators alike and before a number as if there, the beginning weighing more."""
    text = "  " + _NUMBER.sub("-", folded[-_LONGEST_COMPARED:].replace(" ", "-").replace("_", "-")) + " "
    return frozenset(map("".join, zip(text, text[1:], text[2:], strict=False)))


def _likeness(wanted: frozenset[str], name: str) -> float:
    """Dice's coefficient: 1 for the same trigrams, 0 for none in common."""
    other = _trigrams(name)
    return 2 * len(wanted & other) / (len(wanted) + len(other))
