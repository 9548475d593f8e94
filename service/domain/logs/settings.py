"""Settings as engines print them: `{'name': value}`, `Namespace(name=value)`, `name=value, …`, `{ name: Some(…) }`.

Values that hold objects of the engine's own cannot be evaluated, so the text is walked through once, at its outermost
level, and only what is plain is taken: numbers, words, quoted text, true, false and none. A value counts where
something closes it; the last one of a line that was cut does not.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import NamedTuple, Union

Plain = Union[bool, int, float, str, None]  # noqa: UP007  # the probe runs this package on older Pythons too

_MOST = 1000
_LONGEST = 2000
_NAME = re.compile(r"[\s,]{0,64}(?P<quote>['\"]?)(?P<name>[A-Za-z_][\w.-]{0,99})(?P=quote) {0,2}[=:] ?", re.ASCII)
_QUOTES = frozenset("'\"")
_OPENERS = {"(": ")", "[": "]", "{": "}", "<": ">"}
_SIGNS = re.compile(r"['\"()\[\]{}<>,\\]")
_WHOLE = re.compile(r"-?\d{1,18}\Z", re.ASCII)
_DECIMAL = re.compile(r"-?(?:\d{1,18}\.\d{0,18}|\d{1,18}(?:\.\d{1,18})?e[+-]?\d{1,3})\Z", re.ASCII)
_WORDS = {"True": True, "true": True, "False": False, "false": False, "None": None, "null": None}
_WORD = re.compile(r"[\w./:@+-]{1,300}\Z", re.ASCII)


class Settings(NamedTuple):
    """The plain values by their printed names, others as their text; `whole` says that the list's end was seen."""

    values: dict[str, Plain]
    nested: dict[str, str]
    whole: bool


def parse(text: str) -> Settings:
    """The settings of a list that begins with the text's first sign; linear in its length."""
    opener = text[:1]
    closer = _OPENERS.get(opener)
    values: dict[str, Plain] = {}
    nested: dict[str, str] = {}
    whole = closer is not None and text[1:].strip() == closer
    for name, said, whole in _members(text, 1 if closer else 0, closer):  # noqa: B007  # what the last one said
        plain = _plain(said)
        if not isinstance(plain, _Nested):
            values.setdefault(name, plain)
        elif len(said) <= _LONGEST:
            nested.setdefault(name, said)
    return Settings(values, nested, whole)


class _Nested:
    """Stands for what is not plain."""


def _members(text: str, at: int, closer: str | None) -> Iterator[tuple[str, str, bool]]:
    """Each name with its value's text, and whether the list ended behind it."""
    quote = None
    for _ in range(_MOST):
        found = _NAME.match(text, at)
        # Where a list was cut, another one may go on in the same line, with names written another way.
        if found is None or quote not in {None, found["quote"]}:
            return
        quote = found["quote"]
        stop = _end_of_value(text, found.end())
        if stop is None:
            return
        ends = text[stop] != ","
        if ends and text[stop] != closer:
            return
        said = text[found.end() : stop].strip()
        if not _is_one(said):
            return
        yield found["name"], said, ends
        if ends:
            return
        at = stop + 1


def _is_one(said: str) -> bool:
    """Whether it is one value: nothing stands behind a word, a quoted text or a bracket but the list's next sign."""
    if " " not in said:
        return True
    opener = _SIGNS.search(said)
    if opener is None or " " in said[: opener.start()]:
        return False
    return said[-1] == _OPENERS.get(opener[0], opener[0])


def _end_of_value(text: str, at: int) -> int | None:
    """Where the comma or the bracket stands that ends the value; None where the text ends first."""
    level: list[str] = []
    position: int | None = at
    while position is not None:
        found = _SIGNS.search(text, position)
        if found is None:
            return None
        sign, position = found[0], found.end()
        if sign in _QUOTES:
            position = position if _is_apostrophe(text, found.start(), at) else _end_of_quote(text, position, sign)
        elif sign in "([{" or (sign == "<" and text[position : position + 1].isalpha()):
            level.append(_OPENERS[sign])
        elif not level and sign in ",)]}":
            return found.start()
        elif level and sign == level[-1]:
            level.pop()
    return None


def _is_apostrophe(text: str, at: int, begin: int) -> bool:
    """A quote inside a word opens nothing."""
    return at > begin and text[at - 1].isalnum()


def _end_of_quote(text: str, position: int, quote: str) -> int | None:
    while True:
        end = text.find(quote, position)
        if end < 0:
            return None
        behind = end - 1
        while behind >= position and text[behind] == "\\":
            behind -= 1
        if (end - behind) % 2:
            return end + 1
        position = end + 1


def _plain(text: str) -> Plain | _Nested:
    if len(text) > _LONGEST:
        return _Nested()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        inner = text[1:-1]
        return _Nested() if text[0] in inner else inner
    return _WORDS[text] if text in _WORDS else _unquoted(text)


def _unquoted(text: str) -> Plain | _Nested:
    if _WHOLE.match(text):
        return int(text)
    if _DECIMAL.match(text):
        number = float(text)
        return number if math.isfinite(number) else _Nested()
    if text.startswith("Some(") and text.endswith(")"):
        return _plain(text[5:-1].strip())
    text = text.removeprefix("torch.").removeprefix("DType.")
    return text if _WORD.match(text) else _Nested()
