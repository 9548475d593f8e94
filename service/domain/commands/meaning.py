"""From flags as given to the names of a question that they set, what of them does not matter, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from service.domain.commands.reading import READERS, MisreadError, shown
from service.domain.errors import Fault, NotSupported, QuoteError, ValidationError, nearest
from service.domain.spans import GRAPH_SIZES, SPANS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from service.domain.commands.flags import Flag, FlagTable
    from service.domain.commands.parsing import Given
    from service.domain.commands.words import Word
    from service.domain.spans import Span

POINTER = "/command"
_SHOWN = 80
_MOST_STRANGERS = 8
"""Flags and keys that nobody knows of which a refusal names so many, each with the nearest."""


class Unless(NamedTuple):
    """A flag that does not matter where `name` is given; `detail` is its refusal."""

    name: str
    spelling: str
    detail: str


@dataclass(slots=True)
class Understood:
    """What flags say. `settings` are names of the question, those with an underscore before them still to be settled.

    `said_by` tells the flag that set each name; `ignored` lists spellings that do not matter; `refused` and `wrong`
    are faults, of what is known and not modelled and of what cannot be; `notes` is what was taken for granted,
    `warnings` what may not be as meant.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    said_by: dict[str, str] = field(default_factory=dict)
    ignored: list[str] = field(default_factory=list)
    refused: list[Fault] = field(default_factory=list)
    wrong: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    unless: list[Unless] = field(default_factory=list)
    """What is refused unless a name is given, which `settle` finds out."""
    fitted: str = ""
    """The flag that leaves the longest sequence to what memory holds; empty where none does."""
    beside: Mapping[str, Any] = field(default_factory=dict)
    """Names that are given beside the flags, which what flags say together depends on too."""

    def known(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as the name's type
        """What a flag says of a name, else what is given beside the flags."""
        return self.settings.get(name, self.beside.get(name, default))

    def put(self, name: str, value: object, spelling: str) -> None:
        """Set a name; two flags that set it differently contradict each other."""
        if name in self.settings and self.settings[name] != value and self.said_by[name] != spelling:
            other = self.said_by[name]
            detail = f"{other} and {spelling} set {name.lstrip('_')} to {self.settings[name]!r} and {value!r}."
            self.fail(detail[:400])
            return
        self.settings[name], self.said_by[name] = value, spelling

    def take(self, name: str, default: Any = None) -> Any:  # noqa: ANN401  # as the name's type
        """Take a name out to settle it."""
        return self.settings.pop(name, default)

    def take_said(self, name: str) -> tuple[Any, str]:
        """Take a name and the flag that set it out to settle them; None and an empty text where nothing set it."""
        return self.settings.pop(name, None), self.said_by.pop(name, "")

    def take_all(self, names: Iterable[str]) -> tuple[dict[str, Any], dict[str, str]]:
        """Take names out to settle them together: the value of each, and the flag of each, both where it was set."""
        said = {name: self.said_by.pop(name) for name in names if name in self.said_by}
        return {name: self.settings.pop(name, None) for name in said}, said

    def refuse(self, detail: str, close: tuple[str, ...] = ()) -> None:
        """Add a fault of something that is not modelled."""
        self.refused.append(Fault(POINTER, detail, close))

    def fail(self, detail: str, close: tuple[str, ...] = ()) -> None:
        """Add a fault of something that cannot be."""
        self.wrong.append(Fault(POINTER, detail, close))

    def check(self) -> None:
        """Raise every fault at once: ValidationError where one cannot be, else NotSupported."""
        if self.wrong:
            raise ValidationError(*self.wrong, *self.refused)
        if self.refused:
            raise NotSupported(*self.refused)

    def ignore(self, spelling: str) -> None:
        """List a spelling once."""
        if spelling not in self.ignored:
            self.ignored.append(spelling)


class Meaning:
    """Applies the rows of an engine's table to flags; `takes` are the names that the engine has."""

    def __init__(self, table: FlagTable, takes: frozenset[str], engine: str) -> None:
        self.table, self.takes, self.engine = table, takes, engine
        self.found = Understood()

    def apply(self, given: Iterable[Given]) -> None:
        """Apply flags in their order; of a repeated one the last counts, of one that adds to a list all of them."""
        latest: dict[Flag, Given] = {}
        for each in given:
            before = latest.pop(each.flag, None)
            adds = before is not None and each.flag.reads == "tensors"
            latest[each.flag] = each._replace(value=f"{before.value},{each.value}") if before and adds else each
        for flag, each in latest.items():
            self.one(flag, each.spelling, each.value)

    def variables(self, variables: Mapping[str, Word]) -> None:
        """Apply the variables that an engine reads; a flag says more than its variable."""
        table = self.table
        for name, word in variables.items():
            flag = table.variables.get(name)
            if flag is not None:
                if flag.name is None or flag.name not in self.found.settings:
                    self.one(flag, name, word.text if flag.takes == "value" else _switched(word.text))
            elif name.startswith(table.harmless):
                self.found.ignore(name)

    def one(self, flag: Flag, spelling: str, value: Any) -> None:  # noqa: ANN401
        """Apply one flag."""
        found = self.found
        if _is_nothing(flag, value) or (flag.name is None and flag.why is None and not flag.keys):
            found.ignore(spelling)
        elif str(value).strip().casefold() in flag.fitted:
            found.put("_fitted", flag.fitted_since, spelling)
        elif flag.unmodelled and (why := flag.unmodelled.get(str(value).strip().casefold())):
            found.refuse(f"{spelling} {_said(value)}is not modelled: {_way_out(why)}.")
        elif flag.reads == "keys":
            self._keys(flag, spelling, value)
        elif flag.why is not None:
            detail = f"{spelling} {_said(value)}changes what memory holds and is not modelled: {_way_out(flag.why)}."
            name = self.table.moot.get(next(iter(flag.spellings), ""))
            if name is None:
                found.refuse(detail)
            else:
                found.unless.append(Unless(name, spelling, detail))
        else:
            self._set(flag, spelling, value)

    def _set(self, flag: Flag, spelling: str, value: Any) -> None:  # noqa: ANN401
        assert flag.name is not None  # noqa: S101  # ignored otherwise
        name = flag.name
        if not name.startswith("_") and name not in self.takes:
            detail = f"{spelling} changes what memory holds, and {name} is not modelled for {self.engine} yet."
            self.found.refuse(detail)
            return
        try:
            read = self._read(flag, value)
        except MisreadError as error:
            self.found.fail(f"{spelling} {error}.")
            return
        self._within(name, spelling, read)

    def _read(self, flag: Flag, value: Any) -> Any:  # noqa: ANN401
        if flag.takes in {"switch", "boolean"} and flag.reads == "text":
            on = READERS["flag"](value)
            return flag.value if on else _opposite(flag.value)
        if flag.takes == "optional" and value is True:
            return flag.value
        if flag.takes == "many" and isinstance(value, list) and flag.reads not in {"several", "counts"}:
            if len(value) != 1:
                raise MisreadError(f"needs one value, not {len(value)}")
            value = value[0]
        read = READERS[flag.reads](value)
        return flag.values.get(read, read) if flag.values else read

    def _within(self, name: str, spelling: str, value: object) -> None:
        """Set a name inside its span, as a field of a question would be."""
        span = SPANS.get(name)
        if isinstance(value, list) and name == "graph_sizes" and len(value) > GRAPH_SIZES:
            self.found.fail(f"{spelling} has {len(value):,} sizes; at most {GRAPH_SIZES:,} are taken.")
            return
        for part in (value if isinstance(value, list) else [value]) if span else ():
            if span and isinstance(part, int | float) and not _inside(part, span):
                least = f"above {span.least:,}" if span.above_least else f"from {span.least:,}"
                self.found.fail(f"{spelling} must be {least} to {span.greatest:,}, not {str(part)[:_SHOWN]}.")
                return
        self.found.put(name, value, spelling)

    def _keys(self, flag: Flag, spelling: str, value: Any) -> None:  # noqa: ANN401
        try:
            document = READERS["keys"](value)
        except MisreadError as error:
            if flag.name is not None and str(value).isdigit():
                self.one(replace(flag, reads="count", why=None, keys={}), spelling, value)
            elif flag.why is not None and str(value).isdigit():
                self.one(replace(flag, reads="text"), spelling, value)
            else:
                self.found.fail(f"{spelling} {error}.")
            return
        for key, inner in document.items():
            if len(self.found.refused) > _MOST_STRANGERS:
                break
            self._key(flag, f"{spelling}.{str(key)[:_SHOWN]}", str(key), inner)

    def _key(self, flag: Flag, path: str, key: str, value: Any) -> None:  # noqa: ANN401
        row = flag.keys.get(key)
        if row is not None:
            self.one(row, path, value)
        elif flag.why is not None:
            close = nearest(key, flag.keys)
            self.found.refuse(f"{path} may change what memory holds and is not modelled: {_way_out(flag.why)}.", close)
        else:
            self.found.ignore(path)

    def strangers(self, words: Iterable[str], release: str) -> list[str]:
        """Words that are no flags; those that look like flags are refused with the nearest."""
        strangers = dict.fromkeys(word.partition("=")[0] for word in words if _is_flag(word))
        for spelling in list(strangers)[:_MOST_STRANGERS]:
            why, parser = self.table.absent(spelling, release), self.table.parser(release)
            turned = spelling.startswith(("--no-", "--disable-"))
            close = () if why else _closest(spelling, parser.negatives if turned else parser.spellings)
            hint = f" Did you mean {close[0]}?" if close else ""
            named = f"{self.engine} {release}".strip()
            detail = f"{named}: {why}." if why else f"{named} has no flag {spelling[:_SHOWN]}.{hint}"
            if spelling in close:
                detail = f"{spelling[:_SHOWN]} stands behind --, where nothing is read as a flag."
            self.found.fail(detail, close)
        return [word for word in words if not _is_flag(word)]


def _closest(spelling: str, known: Iterable[str]) -> tuple[str, ...]:
    """The flags that a stranger may stand for: of its name with other dashes, what it begins, then what is alike."""
    name, by_name = spelling.lstrip("-"), {flag.lstrip("-"): flag for flag in known}
    if name in by_name:
        return (by_name[name],)
    begun = min((other for other in by_name if other.startswith((f"{name}-", f"{name}_"))), key=len, default=None)
    names = dict.fromkeys((*([begun] if begun else []), *nearest(name, by_name)))
    return tuple(by_name[other] for other in names)


def _is_flag(word: str) -> bool:
    """Whether a word is written as a flag: a dash alone and a negative number are values."""
    return word.startswith("-") and word != "-" and not word[1:2].isdigit()


def _inside(value: float, span: Span) -> bool:
    return span.least <= value <= span.greatest and not (span.above_least and value == span.least)


def _is_nothing(flag: Flag, value: Any) -> bool:  # noqa: ANN401
    """Whether a value leaves the engine's default."""
    if value is None or (isinstance(value, dict | list) and not value):
        return True
    if value is False and not flag.nothing and (flag.why is not None or not isinstance(flag.value, bool)):
        return True
    if isinstance(value, dict | list):
        return False
    return bool(flag.nothing) and str(value).strip().casefold() in flag.nothing


def _opposite(value: Any) -> Any:  # noqa: ANN401
    return not value if isinstance(value, bool) else None


def _switched(text: str) -> Any:  # noqa: ANN401
    try:
        return READERS["flag"](text)
    except MisreadError:
        return text


def _way_out(why: str) -> str:
    """What is not modelled, or what to give instead."""
    return f"leave it out and {why}" if why.startswith("give ") else why


def _said(value: Any) -> str:  # noqa: ANN401
    return "" if value is True or isinstance(value, dict | list) else f"{shown(value)} "


def merged(error: QuoteError, said_by: Mapping[str, str], pointer: str = POINTER) -> QuoteError:
    """A refusal of names that a command set, pointing at the command and naming its flags."""
    faults = []
    for fault in error.faults:
        name = fault.pointer.strip("/").partition("/")[0]
        if name in said_by:
            flag = said_by[name]
            detail = fault.detail if flag in fault.detail else f"{fault.detail} ({flag} of the command.)"
            faults.append(Fault(pointer, detail, fault.nearest))
        else:
            faults.append(fault)
    return type(error)(*faults)
