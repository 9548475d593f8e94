"""Words to flags by argparse, one parser for all releases of an engine that have the same flags.

What was given is noted in the order in which it stands; nothing has a default, since those are the engine's.
"""

from __future__ import annotations

import argparse
from bisect import bisect_left
from itertools import takewhile
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from service.domain.commands.spelling import spelt
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from service.domain.commands.flags import Flag, Style
    from service.domain.commands.words import Word

_NARGS = {"switch": 0, "boolean": 0, "value": None, "optional": "?", "many": "*"}
_LONGEST = 120


class Given(NamedTuple):
    """A flag as it was given: its spelling, and its value as text, texts, or True and False of a switch."""

    flag: Flag
    spelling: str
    value: Any


class Parsed(NamedTuple):
    """The flags of a command, and the words that belong to none."""

    given: tuple[Given, ...]
    others: tuple[str, ...]


class MisuseError(Exception):
    """What argparse has to say of a command."""


class _Note(argparse.Action):
    """Notes a flag with its value in `found` of the namespace."""

    def __init__(self, *, flag: Flag, negatives: frozenset[str], **options: Any) -> None:  # noqa: ANN401
        super().__init__(**options)
        self.flag, self.negatives = flag, negatives

    def __call__(
        self,
        parser: argparse.ArgumentParser,  # noqa: ARG002  # as argparse calls it
        namespace: argparse.Namespace,
        values: Any,  # noqa: ANN401
        option_string: str | None = None,
    ) -> None:
        spelling = option_string or self.option_strings[0]
        value = values
        if self.nargs == 0:
            value = spelling not in self.negatives
        namespace.found.append(Given(self.flag, spelling, value))


class _ArgumentParser(argparse.ArgumentParser):
    """argparse with short ways for what nearly every word is: a known flag, and one value after it.

    The general ways build and match a pattern for each flag, and look at every spelling for an abbreviation.
    """

    def error(self, message: str) -> NoReturn:
        raise MisuseError(message)

    def _get_option_tuples(self, option_string: str) -> list[Any]:
        # Long abbreviations are written out before. Where there are none, argparse still reads -ngl99 as -n with the
        # value gl99. What the tuples hold differs between releases of Python: they are only passed on.
        if not self.allow_abbrev or option_string.startswith("--"):
            return []
        return super()._get_option_tuples(option_string)

    def _match_argument(self, action: argparse.Action, arg_strings_pattern: str) -> int:
        if action.nargs is None and arg_strings_pattern.startswith("A"):
            return 1
        return super()._match_argument(action, arg_strings_pattern)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:  # noqa: ANN401
        if action.nargs is None and len(arg_strings) == 1:
            return arg_strings[0]
        return super()._get_values(action, arg_strings)


class Parser:
    """The parser of one set of flags."""

    def __init__(self, flags: Sequence[Flag], style: Style, whole: Container[Flag] = ()) -> None:
        """Build it, which takes milliseconds: keep it. Those in `whole` are never taken for what begins them."""
        self.style = style
        self.spellings = frozenset(spelling for flag in flags for spelling in flag.spellings)
        self.negatives = frozenset(spelling for flag in flags for spelling in flag.negatives)
        self.nested = frozenset(spelling for flag in flags if flag.takes == "value" for spelling in flag.spellings)
        self._parser = _ArgumentParser(
            prog="", add_help=False, allow_abbrev=style.abbreviations, exit_on_error=False, usage=""
        )
        # Whatever else a flag is written as, its own spellings win: --disable-x may be a flag of its own.
        taken, begun = set(self.spellings), set[str]()
        for flag in flags:
            negatives = [spelling for spelling in flag.negatives if spelling not in taken]
            taken.update(negatives)
            if flag not in whole:
                begun.update(flag.spellings, negatives)
            nargs = _NARGS[flag.takes]
            self._parser.add_argument(
                *flag.spellings,
                *negatives,
                action=_Note,
                dest=argparse.SUPPRESS,
                nargs=nargs,
                const=True if nargs == "?" else None,
                flag=flag,
                negatives=frozenset(negatives),
            )
        # Words find their flag in a table of spellings. The list is for defaults, positions and required flags, of
        # which there are none here, and parsing walks it three times.
        self._parser._actions.clear()  # noqa: SLF001
        self._notes: dict[str, _Note] = self._parser._option_string_actions  # type: ignore[assignment]  # noqa: SLF001
        self._long = sorted(spelling for spelling in begun if spelling.startswith("--"))

    def parse(self, words: Sequence[Word]) -> Parsed:
        """What the words give; raises ValidationError where a value is missing or an abbreviation is ambiguous."""
        texts = spelt([word.text for word in words], self.style, self.nested)
        return self._at_once(texts) or self._by_argparse(texts)

    def _at_once(self, texts: Sequence[str]) -> Parsed | None:
        """What nearly every command is: flags in their own spellings, each with its one value; None for all others.

        argparse takes four times as long for the same.
        """
        given, others = [], []
        rest = iter(texts)
        for text in rest:
            if not text.startswith("-"):
                others.append(text)
                continue
            spelling, equals, value = (text, "", "") if text in self._notes else text.partition("=")
            spelling = self._whole(spelling)
            note = self._notes.get(spelling)
            if note is None or (equals and (note.nargs is not None or not spelling.startswith("--"))):
                return None
            if note.nargs is None and not equals:
                value = next(rest, "-")
                if value.startswith("-"):
                    return None
            elif note.nargs not in {None, 0}:
                return None
            given.append(Given(note.flag, spelling, spelling not in note.negatives if note.nargs == 0 else value))
        return Parsed(tuple(given), tuple(others))

    def _whole(self, spelling: str) -> str:
        """The one spelling that this begins; itself where it is one, or where it begins none or several."""
        begun = self._begun(spelling)
        return begun[0] if len(begun) == 1 else spelling

    def _begun(self, spelling: str) -> list[str]:
        """The long spellings that this begins, unless it is one itself or the engine takes no abbreviations."""
        if spelling in self._notes or not self.style.abbreviations or not spelling.startswith("--"):
            return []
        return list(
            takewhile(lambda whole: whole.startswith(spelling), self._long[bisect_left(self._long, spelling) :])
        )

    def _written_out(self, texts: Sequence[str]) -> Iterator[str]:
        """The words with flags written out, up to a bare `--`; raises MisuseError where one begins several."""
        words = iter(texts)
        for text in words:
            if text == "--":
                yield from (text, *words)
                return
            spelling, equals, value = (text, "", "") if text in self._notes else text.partition("=")
            begun = self._begun(spelling)
            if len(begun) > 1:
                raise MisuseError(f"ambiguous option: {text} could match {', '.join(begun)}")
            yield f"{begun[0]}{equals}{value}" if begun else text

    def _by_argparse(self, texts: Sequence[str]) -> Parsed:
        namespace = argparse.Namespace(found=[])
        try:
            _, others = self._parser.parse_known_args(list(self._written_out(texts)), namespace)
        except (MisuseError, argparse.ArgumentError) as error:
            detail = f"The command cannot be read: {str(error)[:_LONGEST]}."
            raise ValidationError(Fault("/command", detail)) from error
        return Parsed(tuple(namespace.found), tuple(other for other in others if other != "--"))
