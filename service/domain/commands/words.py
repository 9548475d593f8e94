"""A command line as a shell splits it: simple commands of words, without running or expanding anything.

shlex cannot tell a quoted `;` from one that ends a command, nor a quoted `$` from one that a shell would expand, and
both decide here what is refused.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_WORDS = 1000

_POINTER = "/command"
_SHOWN = 40
_LONGEST = 65_536

_TOKEN = re.compile(
    r"""
      (?P<gap>     [ \t\r]+ )
    | (?P<joined>  \\\r?\n )
    | (?P<here>    \d*<<-? (?!<) )
    | (?P<redirect>\d*(?:<<< | <& | <> | < | >> | >& | >\| | >) | &>>? )
    | (?P<end>     \n | && | \|\|? | ;;? | & | [()] )
    | (?P<single>  '[^']*' )
    | (?P<double>  "(?:[^"\\] | \\.)*" )
    | (?P<escaped> \\. )
    | (?P<expanded>\$\((?:[^()] | \([^()]*\))*\) | `[^`]*` | \$\{[^{}]*\} | \$\w+ | \$[@*?!] )
    | (?P<plain>   [^\s'"\\;&|<>`$()]+ | \$ | [^\S \t\r\n]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_EXPANDED = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^{}]*\}|\$\w+|\$[@*?!]", re.DOTALL)
_ESCAPED_INSIDE = re.compile(r'\\([\\"$`\n])|\\\r\n')
_COMMENT = re.compile(r"#[^\n]*")
_NEEDS_SHELL = re.compile(r"""['"\\;&|<>`$()#\n]""")
_NAME = re.compile(r"\$\{?(\w+)\}?")


class Word(NamedTuple):
    """A word with its quotes taken off, and what in it a shell would have replaced (`$NAME`, `$(…)`, backticks)."""

    text: str
    expanded: tuple[str, ...] = ()

    def known(self, variables: Mapping[str, str]) -> Word:
        """The word with the variables put in that are known."""
        text, left = self.text, []
        for part in self.expanded:
            found = _NAME.fullmatch(part)
            if found and found[1] in variables:
                text = text.replace(part, variables[found[1]])
            else:
                left.append(part)
            if len(text) > _LONGEST:
                raise ValidationError(
                    Fault(_POINTER, f"A variable of the command makes a word of more than {_LONGEST:,} characters.")
                )
        return Word(text, tuple(left))


def split(text: str) -> list[list[Word]]:
    """The simple commands of a line or a script, each as its words; redirections and comments are dropped.

    Raises ValidationError for quotes that are left open, for here-documents and for more words than are read.
    """
    if text.isascii() and not _NEEDS_SHELL.search(text):
        words = text.split(None, MOST_WORDS)
        _check_count(len(words))
        return [[Word(word) for word in words]] if words else []
    return [words for words in _Splitter(text).commands if words]


def listed(text: str) -> list[list[Word]] | None:
    """The one command of a JSON list of words, as manifests write a container's; None for what is no such list."""
    if not text.lstrip().startswith("["):
        return None
    try:
        words = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not (isinstance(words, list) and words and all(isinstance(word, str) for word in words)):
        return None
    _check_count(len(words))
    return [[Word(word, tuple(_EXPANDED.findall(word))) for word in words]]


def _check_count(words: int) -> None:
    if words > MOST_WORDS:
        raise ValidationError(Fault(_POINTER, f"The command has more than the {MOST_WORDS:,} words that are read."))


@dataclass(slots=True)
class _Splitter:
    """Walks the text once; `pieces` is None between words."""

    text: str
    commands: list[list[Word]] = field(default_factory=lambda: [[]])
    pieces: list[str] | None = None
    expanded: list[str] = field(default_factory=list)
    count: int = 0
    target: bool = False
    """Whether the next word is what a redirection leads to."""

    def __post_init__(self) -> None:
        at, text = 0, self.text
        while at < len(text):
            comment = self.pieces is None and text[at] == "#" and _COMMENT.match(text, at)
            token = None if comment else _TOKEN.match(text, at)
            if comment:
                at = comment.end()
            elif token is None:
                raise ValidationError(Fault(_POINTER, _unclosed(text, at)))
            else:
                self._take(token.lastgroup or "", token[0])
                at = token.end()
        self._end_word()

    def _take(self, kind: str, text: str) -> None:
        if kind in {"redirect", "here", "end", "gap"}:
            self._between(kind, text)
        elif kind == "single":
            self._add(text[1:-1])
        elif kind == "double":
            self._add(_ESCAPED_INSIDE.sub(lambda found: (found[1] or "").strip("\n"), text[1:-1]))
            self.expanded += _EXPANDED.findall(_ESCAPED_INSIDE.sub("", text[1:-1]))
        elif kind == "escaped":
            self._add(text[1:])
        elif kind != "joined":
            self._add(text)
            if kind == "expanded":
                self.expanded.append(text)

    def _between(self, kind: str, text: str) -> None:
        # Digits before > name a stream only where they are a word of their own.
        if kind in {"redirect", "here"} and self.pieces is not None and text[0].isdigit():
            self._add(text.rstrip("<>&|-"))
        self._end_word()
        if kind == "here":
            raise ValidationError(Fault(_POINTER, "Here-documents are not read: give the command itself."))
        if kind == "redirect":
            self.target = True
        if kind == "end":
            self.target = False
            if self.commands[-1]:
                self.commands.append([])

    def _add(self, piece: str) -> None:
        if self.pieces is None:
            self.pieces = []
        self.pieces.append(piece)

    def _end_word(self) -> None:
        if self.pieces is not None and not self.target:
            self.commands[-1].append(Word("".join(self.pieces), tuple(self.expanded)))
            self.count += 1
            _check_count(self.count)
        if self.pieces is not None:
            self.target = False
        self.pieces = None
        self.expanded = []


def _unclosed(text: str, at: int) -> str:
    shown = text[at : at + _SHOWN]
    if text[at] in "'\"`":
        return f"The quote that opens at character {at + 1:,} is never closed: {shown!r}."
    return f"The command ends in a backslash or cannot be read at character {at + 1:,}: {shown!r}."
