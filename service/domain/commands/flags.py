"""What an engine's flags mean to a question, as the catalog keeps it: set a name, do not matter, or are refused.

`came` and `went` are the first of the releases read with and without a flag again; between two releases that were
read nobody knows, and the flag is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from service.domain.commands.parsing import Parser
from service.domain.errors import CatalogFactError

Order: TypeAlias = Any
"""A release as something that can be compared, as the engine's own reader makes it."""

TAKES: Final = ("value", "switch", "boolean", "optional", "many")
_KEPT_PARSERS = 64


@dataclass(frozen=True, slots=True, eq=False)
class Flag:
    """One flag with all its spellings.

    `name` is what it sets of a question (names with an underscore before them are the engine's own, and settled with
    others), `reads` how its value is read, `value` what a switch sets. Values in `nothing` leave the default, those in
    `unmodelled` are refused for the reason there, with those in `fitted` the engine takes what memory holds, from the
    release `fitted_since` on. Without a name it is ignored, or refused where `why` says what is not modelled.
    """

    spellings: tuple[str, ...]
    takes: str = "value"
    name: str | None = None
    reads: str = "text"
    value: Any = True
    values: Mapping[str, str] = field(default_factory=dict)
    nothing: frozenset[str] = frozenset()
    unmodelled: Mapping[str, str] = field(default_factory=dict)
    why: str | None = None
    keys: Mapping[str, Flag] = field(default_factory=dict)
    variable: str | None = None
    fitted: frozenset[str] = frozenset()
    fitted_since: str = ""

    @property
    def negatives(self) -> tuple[str, ...]:
        """How a boolean is turned off."""
        if self.takes != "boolean":
            return ()
        long = [spelling[2:] for spelling in self.spellings if spelling.startswith("--")]
        turned = [f"--disable-{word[7:]}" for word in long if word.startswith("enable-")]
        turned += [f"--enable-{word[8:]}" for word in long if word.startswith("disable-")]
        return (*(f"--no-{word}" for word in long), *turned)


class Style(NamedTuple):
    """How an engine's own parser reads words, where that differs."""

    abbreviations: bool = True
    underscores: bool = False
    nested: bool = False
    levels: bool = False
    positional: bool = False
    equals: bool = True


class Span(NamedTuple):
    """The releases between which a flag is known: after one, before another, of those that were read."""

    after: Order | None = None
    before: Order | None = None
    first: str = ""
    last: str = ""

    def why(self, spelling: str, at: Order) -> str | None:
        """Why a release does not have the flag; None where it may."""
        if self.after is not None and at <= self.after:
            return f"{spelling} is none of its flags yet; {self.first} is the first release read that has it"
        if self.before is not None and at >= self.before:
            return f"{spelling} is no longer one of its flags; {self.last} is the first release read without it"
        return None


class FlagTable:
    """Every flag of an engine, with the parser of each release built when first needed."""

    def __init__(self, facts: Mapping[str, Any], order: Callable[[str], Order]) -> None:
        """Read the facts; raises CatalogFactError where a flag is told twice or a row cannot be read."""
        self._order = order
        self.style = Style(**facts.get("style", {}))
        self.flags = tuple(_flags(facts))
        self.variables = {flag.variable: flag for flag in self.flags if flag.variable}
        self.variables |= {row["variable"]: _row(row) for row in facts.get("variables", ())}
        self.harmless = tuple(facts.get("harmless_variables", ()))
        self.longer: str | None = facts.get("longer_than_published", {}).get("variable")
        """The variable without which it does not start for more than the model's own length; None where it does."""
        self.quantization: Mapping[str, Mapping[str, Any]] = facts.get("quantization", {})
        self.moot = {flag: name for name, flags in facts.get("moot_with", {}).items() for flag in flags}
        """Flags that are refused unless a name is given, by their first spelling: that name."""
        self.ollama = {row["variable"]: _row(row) for row in facts.get("ollama", ())}
        self.by_spelling = _by_spelling(self.flags)
        self._printed = {
            name: self.by_spelling[spelling] if spelling else Flag((name,))
            for name, spelling in facts.get("printed", {}).items()
        }
        self._spans = _spans(facts.get("history", {}), order)
        self._edges = sorted({edge for span in self._spans.values() for edge in span[:2] if edge is not None})
        self._parsers: dict[tuple[int, bool], Parser] = {}
        self._absent: dict[str, dict[str, str]] = {}

    def parser(self, release: str | None, *, others: bool = False) -> Parser:
        """The parser of a release, or of all of them together; releases with the same flags share one.

        With `others` it knows the flags of other releases too, which have to be written out.
        """
        at = None if release is None else self._order(release)
        epoch = -1 if at is None else sum((edge < at) * 2 + (edge == at) for edge in self._edges)
        found = self._parsers.get((epoch, others))
        if found is None:
            strange = frozenset(flag for flag in self.flags if at is not None and not self._known(flag, at))
            known = self.flags if others else tuple(flag for flag in self.flags if flag not in strange)
            found = Parser(known, self.style, strange if others else ())
            if len(self._parsers) >= _KEPT_PARSERS:
                self._parsers.clear()
            self._parsers[epoch, others] = found
        return found

    def absent(self, spelling: str, release: str) -> str | None:
        """Why a flag that other releases have is not one of this release; None where it is, or no release has it."""
        found = self._absent.get(release)
        if found is None:
            at = self._order(release)
            found = {first: why for first, span in self._spans.items() if (why := span.why(first, at))}
            if len(self._absent) >= _KEPT_PARSERS:
                self._absent.clear()
            self._absent[release] = found
        flag = self.by_spelling.get(spelling)
        return found.get(flag.spellings[0]) if flag else None

    def dest(self, word: str) -> Flag | None:
        """The flag of a name as logs print it: `tensor_parallel_size` or `--tensor-parallel-size`."""
        if word in self._printed:
            return self._printed[word]
        bare = word.lstrip("-")
        for spelling in (f"--{bare.replace('_', '-')}", f"--{bare}", f"-{bare}"):
            if spelling in self.by_spelling:
                return self.by_spelling[spelling]
        return None

    def _known(self, flag: Flag, at: Order) -> bool:
        span = self._spans.get(flag.spellings[0])
        return span is None or span.why(flag.spellings[0], at) is None


def _flags(facts: Mapping[str, Any]) -> Iterator[Flag]:
    yield from (_row(row) for row in facts.get("sets", ()))
    yield from (_row(row) for row in facts.get("refused", ()))
    for takes, spellings in facts.get("ignored", {}).items():
        yield from (Flag((spelling,), takes) for spelling in spellings)


def _row(row: Mapping[str, Any]) -> Flag:
    try:
        return Flag(
            spellings=tuple(row.get("flags", ())),
            takes=row.get("takes", "value"),
            name=row.get("name"),
            reads=row.get("reads", "text"),
            value=row.get("value", True),
            values=row.get("values", {}),
            nothing=frozenset(map(str, row.get("nothing", ()))),
            unmodelled=row.get("unmodelled", {}),
            why=row.get("why"),
            keys={key: _row(inner) for key, inner in row.get("keys", {}).items()},
            variable=row.get("variable"),
            fitted=frozenset(map(str, row.get("fitted", ()))),
            fitted_since=str(row.get("fitted_since", "")),
        )
    except (TypeError, AttributeError) as error:
        raise CatalogFactError.at("/flags", f"A flag cannot be read: {error}.") from error


def _by_spelling(flags: tuple[Flag, ...]) -> dict[str, Flag]:
    found: dict[str, Flag] = {}
    for flag in flags:
        for spelling in flag.spellings:
            if spelling in found:
                raise CatalogFactError.at("/flags", f"The flag {spelling} is told twice.")
            found[spelling] = flag
    return found


def _spans(history: Mapping[str, Any], order: Callable[[str], Order]) -> dict[str, Span]:
    """The span of each flag that came or went among the releases read, by its first spelling."""
    read = [str(name) for name in history.get("read", ())]
    spans: dict[str, Span] = {}
    for release, spellings in history.get("came", {}).items():
        before = order(read[read.index(str(release)) - 1])
        spans |= {spelling: Span(after=before, first=str(release)) for spelling in spellings}
    for release, spellings in history.get("went", {}).items():
        for spelling in spellings:
            known = spans.get(spelling, Span())
            spans[spelling] = known._replace(before=order(str(release)), last=str(release))
    return spans
