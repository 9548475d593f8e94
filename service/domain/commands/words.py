"""A command line as a shell splits it: simple commands of words, without running or expanding anything.

shlex cannot tell a quoted `;` from one that ends a command, nor a quoted `$` from one that a shell would expand, and
both decide here what is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MOST_WORDS = 1000

_POINTER = "/command"
_SHOWN = 40
_LONGEST = 65_536

# Before a redirection stands what looks like one: <N>, as documentation writes what a reader has to put in.
_TOKEN = re.compile(
    r"""
      (?P<gap>     [ \t\r]+ )
    | (?P<joined>  \\\r?\n )
    | (?P<blank>   <[A-Za-z](?:[^<>|;&'"\n]*[^\s<>|;&'"])?> (?!>) )
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
EXPANDED = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^{}]*\}|\$\w+|\$[@*?!]", re.DOTALL)
_ESCAPED_INSIDE = re.compile(r'\\([\\"$`\n])|\\\r\n')
_COMMENT = re.compile(r"#[^\n]*")
_NEEDS_SHELL = re.compile(r"""['"\\;&|<>`$()#\n]""")
_NAME = re.compile(r"\$(\w+)|\$\{(\w+)(?::?[-=?][^{}]*)?\}")
"""A variable alone, or with what a shell takes where it is not set."""
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
_DELIMITER = re.compile(r"""[ \t]*(?:'(?P<single>[^'\n]+)'|"(?P<double>[^"\n]+)"|\\?(?P<bare>[\w.-]+))""")
_WINDOWS_ESCAPED = frozenset(" \"'$`&|;<>()#\\\t")
"""What a backslash may stand before on Windows without being part of a path."""


class Word(NamedTuple):
    """A word with its quotes taken off, and what in it a shell would have replaced (`$NAME`, `$(…)`, backticks).

    `bare` is a variable without quotes and nothing beside it, whose value a shell splits into words; `items` are those
    of an array in parentheses.
    """

    text: str
    expanded: tuple[str, ...] = ()
    bare: bool = False
    items: tuple[Word, ...] | None = None

    def known(self, variables: Mapping[str, str]) -> Word:
        """The word with the variables put in that are known."""
        text, at, left = self.text, 0, []
        for part in self.expanded:
            begin, found = text.find(part, at), _NAME.fullmatch(part)
            value = variables.get(found[1] or found[2]) if found else None
            if begin < 0 or value is None or (not value and "{" in part):
                left.append(part)
                at = max(at, begin + len(part))
                continue
            at = begin
            text = text[:at] + value + text[at + len(part) :]
            at += len(value)
            if len(text) > _LONGEST:
                raise ValidationError(
                    Fault(_POINTER, f"A variable of the command makes a word of more than {_LONGEST:,} characters.")
                )
        return Word(text, tuple(left), self.bare and bool(left), self.items)


class Command(list[Word]):
    """The words of a simple command, what stands between it and the one before, and the here-document it reads."""

    __slots__ = ("after", "document")

    def __init__(self, words: Iterable[Word] = (), after: str = "", document: str | None = None) -> None:
        super().__init__(words)
        self.after, self.document = after, document


def split(text: str, *, windows: bool = False) -> list[Command]:
    """The simple commands of a line or a script, each as its words; redirections and comments are dropped.

    On `windows` a backslash within a word separates folders. Raises ValidationError for quotes and here-documents
    that are left open, and for more words than are read.
    """
    if text.isascii() and not _NEEDS_SHELL.search(text):
        words = text.split(None, MOST_WORDS)
        check_count(len(words))
        return [Command(map(Word, words))] if words else []
    return [words for words in _Splitter(text, windows).commands if words]


def check_count(words: int) -> None:
    """Raise ValidationError for more words than are read."""
    if words > MOST_WORDS:
        raise ValidationError(Fault(_POINTER, f"The command has more than the {MOST_WORDS:,} words that are read."))


@dataclass(slots=True)
class _Splitter:
    """Walks the text once; `pieces` is None between words."""

    text: str
    windows: bool = False
    commands: list[Command] = field(default_factory=lambda: [Command()])
    pieces: list[str] | None = None
    expanded: list[str] = field(default_factory=list)
    bare: bool = True
    """Whether the word so far has nothing in it that stands in quotes or for itself."""
    array: tuple[str, list[Word]] | None = None
    """The name and the words of an array that is not closed yet."""
    documents: list[tuple[str, Command]] = field(default_factory=list)
    """How here-documents end that begin behind this line, and whose they are."""
    count: int = 0
    target: bool = False
    """Whether the next word is what a redirection leads to."""

    def __post_init__(self) -> None:
        at, text = 0, _without_last_backslash(self.text)
        while at < len(text):
            comment = self.pieces is None and text[at] == "#" and _COMMENT.match(text, at)
            token = None if comment else _TOKEN.match(text, at)
            if comment:
                at = comment.end()
            elif token is None:
                raise ValidationError(Fault(_POINTER, _unclosed(text, at)))
            else:
                at = self._take(token.lastgroup or "", token[0], token.end())
        self._end_word()
        if self.array is not None:
            raise ValidationError(Fault(_POINTER, f"The parenthesis behind {self.array[0][:_SHOWN]} is never closed."))
        if self.documents:
            detail = f"The here-document never ends: no line is {self.documents[0][0][:_SHOWN]}."
            raise ValidationError(Fault(_POINTER, detail))

    def _take(self, kind: str, text: str, end: int) -> int:
        """Take a token; where the next one begins."""
        if kind in {"redirect", "here", "end", "gap"}:
            return self._between(kind, text, end)
        if kind == "single":
            self._add(text[1:-1])
        elif kind == "double":
            self._add(_ESCAPED_INSIDE.sub(lambda found: (found[1] or "").strip("\n"), text[1:-1]))
            self.expanded += EXPANDED.findall(_ESCAPED_INSIDE.sub("", text[1:-1]))
        elif kind == "escaped":
            self._add(text if self.windows and text[1] not in _WINDOWS_ESCAPED else text[1:])
        elif kind != "joined":
            only = self.pieces is None
            self._add(text)
            if kind in {"expanded", "blank"}:
                self.expanded.append(text)
                self.bare = only
        return end

    def _between(self, kind: str, text: str, end: int) -> int:
        # Digits before > name a stream only where they are a word of their own.
        if kind in {"redirect", "here"} and self.pieces is not None and text[0].isdigit():
            self._add(text.rstrip("<>&|-"))
        opens = text == "(" and self.pieces is not None and _ARRAY.fullmatch("".join(self.pieces))
        if opens:
            self.array, self.pieces = ("".join(self.pieces or ()), []), None
            return end
        self._end_word()
        if kind == "here":
            return self._opened(end)
        if kind == "redirect":
            self.target = True
        if kind == "end":
            self.target = False
            return self._ended(text, end)
        return end

    def _ended(self, text: str, end: int) -> int:
        """A command's end, or within an array a line's."""
        if self.array is not None:
            if text == ")":
                name, items = self.array
                self.array = None
                self._add_word(Word(name, items=tuple(items)))
            return end
        if self.commands[-1]:
            self.commands.append(Command(after=text))
        return self._documents(end) if text == "\n" else end

    def _opened(self, end: int) -> int:
        """A here-document: its text begins with the next line."""
        found = _DELIMITER.match(self.text, end)
        if found is None:
            raise ValidationError(Fault(_POINTER, "A here-document does not say how it ends."))
        self.documents.append((found[found.lastgroup or 0], self.commands[-1]))
        return found.end()

    def _documents(self, at: int) -> int:
        """Take the here-documents that begin here; where the next command does."""
        for delimiter, command in self.documents:
            lines = []
            while at < len(self.text):
                stop = self.text.find("\n", at)
                stop = len(self.text) if stop < 0 else stop
                line, at = self.text[at:stop], stop + 1
                if line.strip("\t\r") == delimiter:
                    break
                lines.append(line)
            else:
                return at
            command.document = "\n".join(lines)
        self.documents = []
        return at

    def _add(self, piece: str) -> None:
        if self.pieces is None:
            self.pieces = []
        self.pieces.append(piece)
        self.bare = False

    def _end_word(self) -> None:
        if self.pieces is not None and not self.target:
            self._add_word(Word("".join(self.pieces), tuple(self.expanded), self.bare))
        if self.pieces is not None:
            self.target = False
        self.pieces = None
        self.expanded = []

    def _add_word(self, word: Word) -> None:
        (self.commands[-1] if self.array is None else self.array[1]).append(word)
        self.count += 1
        check_count(self.count)


def _without_last_backslash(text: str) -> str:
    """A line that was cut behind the sign that it goes on."""
    bare = text.rstrip()
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare[:-1] if backslashes % 2 and (len(bare) == len(text) or "\n" in text[len(bare) :]) else text


def _unclosed(text: str, at: int) -> str:
    return f"The quote that opens at character {at + 1:,} is never closed: {text[at : at + _SHOWN]!r}."
