"""JSON objects of many small values, read one after the other: what was read is let go before the next is.

Text is taken byte for byte (Latin-1), so that one sign of another script does not make each take four bytes; only
names in ASCII are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Final

from service.domain.errors import pointer_step
from service.domain.files.table import MOST_HEADER_BYTES, refuse

_BLANK: Final = re.compile(r"[ \t\n\r]*")
_ENCODING: Final = "latin-1"


class Scanner:
    """A place in a JSON text; `pointer` is where that text stands for whoever gave it."""

    __slots__ = ("_at", "_decode", "_text", "pointer")

    def __init__(self, data: bytes | memoryview, pointer: str) -> None:
        """Start before the text's first value; refuses what is too long to be a header."""
        self.pointer = pointer
        if len(data) > MOST_HEADER_BYTES:
            refuse(pointer, f"A header has at most {MOST_HEADER_BYTES:,} bytes, not {len(data):,}.")
        self._text = str(data, _ENCODING)
        self._at = 0
        self._decode = JSONDecoder().raw_decode

    def members(self) -> Iterator[str]:
        """The names of the object that begins here; each member's value is to be read before the next."""
        self._expect("{")
        if self._taken("}"):
            return
        while True:
            yield self._name()
            if self._taken("}"):
                return
            self._expect(",")

    def items(self) -> Iterator[int]:
        """The indices of the list that begins here; each item's value is to be read before the next."""
        self._expect("[")
        if self._taken("]"):
            return
        index = 0
        while True:
            yield index
            if self._taken("]"):
                return
            self._expect(",")
            index += 1

    def place(self) -> tuple[int, str]:
        """How far the text was read, blanks behind it included, and the sign that is next."""
        at = self._blank()
        return at, self._text[at : at + 1]

    def value(self, name: str) -> object:
        """The value that begins here, whole."""
        try:
            found, self._at = self._decode(self._text, self._blank())
        except (ValueError, RecursionError) as error:
            refuse(self.at(name), f"The value is no JSON: {self._why(error)}.")
        return found

    def end(self) -> None:
        """Refuse what stands behind the object; safetensors fills up with blanks."""
        if self._blank() != len(self._text):
            refuse(self.pointer, "Something stands behind the JSON object.")

    def at(self, name: str) -> str:
        """The JSON pointer of a member."""
        return f"{self.pointer}/{pointer_step(name)}"

    def _name(self) -> str:
        name = self.value("")
        if not isinstance(name, str):
            refuse(self.pointer, "The names of an object are strings.")
        self._expect(":")
        return name

    def _expect(self, sign: str) -> None:
        if not self._taken(sign):
            there = "the text ends" if self._at >= len(self._text) else f"byte {self._at + 1:,} is another"
            refuse(self.pointer, f"It is no JSON: where {sign} should be, {there}.")

    def _taken(self, sign: str) -> bool:
        self._blank()
        if self._text[self._at : self._at + 1] != sign:
            return False
        self._at += 1
        return True

    def _blank(self) -> int:
        found = _BLANK.match(self._text, self._at)
        self._at = found.end() if found else self._at
        return self._at

    @staticmethod
    def _why(error: Exception) -> str:
        if isinstance(error, JSONDecodeError):
            return f"byte {error.pos + 1:,}, {error.msg}"
        return "nested too deep" if isinstance(error, RecursionError) else "a number of thousands of digits"
