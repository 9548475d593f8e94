"""The words of a container as manifests write them: lists in brackets, lists of lines, and strings under their key."""

from __future__ import annotations

import ast
import json
import re
from typing import TYPE_CHECKING, NamedTuple

from service.domain.commands.words import EXPANDED, Command, Word, check_count, split

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_KEY = re.compile(
    r"(?P<dash>-[ \t]+)?[\"']?(?P<key>entrypoint|command|args|cmd)[\"']?[ \t]*(?P<colon>:?)[ \t]*(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_BLOCK = re.compile(r"[|>][+-]?\d?[ \t]*")
_ORDER = ("entrypoint", "command", "args", "cmd")
_COMMENT = re.compile(r"(?:^|[ \t])#.*")


class Line(NamedTuple):
    """A line of a manifest without the blanks that it begins with."""

    indent: int
    text: str


def listed(text: str) -> list[Command] | None:
    """The one command of a manifest's lists; None for what is no such text.

    A whole text may also be a list as Python writes one.
    """
    if text.lstrip()[:1] not in {"[", "-", "e", "E", "c", "C", "a", "A", '"', "'"}:
        return None
    whole = _bracketed(text, python=True)
    if whole is not None:
        return [_command(whole)]
    lines = [Line(len(line) - len(line.lstrip()), line.strip()) for line in text.splitlines() if line.strip()]
    parts = _parts([line for line in lines if not line.text.startswith("#")])
    if not parts:
        return None
    return [_command([word for key in _ORDER for name, words in parts if name == key for word in words])]


def _command(words: Sequence[str]) -> Command:
    check_count(len(words))
    return Command(Word(word, tuple(EXPANDED.findall(word))) for word in words)


def _bracketed(text: str, *, python: bool = False) -> list[str] | None:
    """The words of a list in brackets; None for anything else."""
    bare = text.strip().removesuffix(",")
    if not bare.startswith("["):
        return None
    try:
        words = json.loads(bare)
    except (ValueError, RecursionError):
        words = _literal(bare) if python else None
    whole = isinstance(words, list) and words and all(isinstance(word, str) for word in words)
    return words if whole else None


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None


def _parts(lines: Sequence[Line]) -> list[tuple[str, list[str]]] | None:
    """Each key with its words, lists without one as args; None where a line is neither."""
    found: list[tuple[str, list[str]]] = []
    at = 0
    while at < len(lines):
        line = lines[at]
        key = _KEY.fullmatch(line.text)
        if key and (key["colon"] or key["rest"].startswith("[")):
            end = _end(lines, at, line.indent, dashes=True)
            words = _value(key["rest"], lines[at + 1 : end])
            name = key["key"].lower()
        else:
            end = len(lines)
            words, name = _dashed(lines[at:]), "args"
        if words is None:
            return None
        found.append((name, words))
        at = end
    return found


def _end(lines: Sequence[Line], at: int, indent: int, *, dashes: bool) -> int:
    """Where what belongs to the line ends: at the next that does not stand further in, items of its list apart."""
    at += 1
    while at < len(lines) and (
        lines[at].indent > indent
        or (dashes and lines[at].indent == indent and lines[at].text.startswith("- "))
        or lines[at].text[0] == "]"
    ):
        at += 1
    return at


def _value(rest: str, below: Sequence[Line]) -> list[str] | None:
    """What stands behind a key and below it."""
    rest = _COMMENT.sub("", rest) if not rest.startswith(("[", '"', "'")) else rest
    if rest.startswith("["):
        return _bracketed(" ".join((rest, *(line.text for line in below))))
    if not rest:
        return _dashed(below)
    folded = _BLOCK.fullmatch(rest)
    scalar = "\n".join(line.text for line in below) if folded else _scalar(rest)
    if scalar is None or (below and not folded):
        return None
    commands = split(scalar.replace("\n", " ") if folded and rest[0] == ">" else scalar)
    return [word.text for word in commands[0]] if len(commands) == 1 else None


def _dashed(lines: Sequence[Line]) -> list[str] | None:
    """The items of a list of lines; None where one is no text."""
    if not lines or any(line.text == "-" for line in lines):
        return None
    words = list(_items(lines))
    return None if None in words else [word for word in words if word is not None]


def _items(lines: Sequence[Line]) -> Iterator[str | None]:
    at = 0
    while at < len(lines):
        line = lines[at]
        end = _end(lines, at, line.indent, dashes=False)
        text = line.text[2:].strip() if line.text.startswith("- ") else ""
        if _BLOCK.fullmatch(text) and end > at + 1:
            yield ("\n" if text[0] == "|" else " ").join(each.text for each in lines[at + 1 : end])
        else:
            yield _scalar(text) if text and end == at + 1 else None
        at = end


def _scalar(text: str) -> str | None:
    """A text of YAML with its quotes taken off; None where something follows them, or where it is no text."""
    if text.startswith('"'):
        try:
            found = json.loads(_COMMENT.sub("", text) if not text.endswith('"') else text)
        except ValueError:
            return None
        return found if isinstance(found, str) else None
    if text.startswith("'"):
        bare = text if text.endswith("'") else _COMMENT.sub("", text).rstrip()
        return bare[1:-1].replace("''", "'") if len(bare) > 1 and bare.endswith("'") else None
    bare = _COMMENT.sub("", text).strip()
    return (
        None if not bare or bare.startswith(("[", "{", "&", "*", "!")) or ": " in bare or bare.endswith(":") else bare
    )
