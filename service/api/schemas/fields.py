"""The types a question is made of: strict, with one reading for JSON values and one for query strings.

marshmallow's own fields take "1.5" for a number, truncate 1.9 to 1 and read "yes" as true; none of these is one.
Each field here documents itself for OpenAPI, so that what is written there is what is enforced.
"""

import math
import re
import shlex
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from marshmallow import ValidationError, fields

from service.api import limits
from service.api.limits import Span
from service.domain.errors import nearest

Properties = dict[str, object]
Given = TypeVar("Given")

_whole_number = re.compile(r"-?[0-9]+").fullmatch
_number = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?").fullmatch
_plain_lines = re.compile(r"[\x20-\x7e\t\n\r]*").fullmatch
_moment = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII).fullmatch
# An offset whose + an address turned into a space.
_lost_plus = re.compile(r"\S{19,26} \d\d:\d\d", re.ASCII).fullmatch
# Invisible or not text: controls, formats (zero-width, direction), surrogates, private use, unassigned.
_UNREADABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


class MisreadError(ValidationError):
    """A value that its field cannot take. `at` is the JSON pointer below the field's own."""

    def __init__(self, message: str, at: str = "", nearest: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.sentence = message
        self.at = at
        self.nearest = nearest


class AskedField(fields.Field[Any]):
    """A field of a question. `nullable` is documentation: null in a body means absent, a query string has none."""

    nullable = True

    def read(self, value: object) -> object:
        """Turn a JSON value, never null, into the field's own type; raises MisreadError."""
        return value

    def read_text(self, text: str) -> object:
        """Turn a value of a query string into the field's own type; raises MisreadError."""
        return self.read(text)

    def described(self) -> Properties:
        """JSON Schema of what `read` takes."""
        return {}

    def echoed(self) -> Properties:
        """JSON Schema of what an answer repeats of it."""
        return self.described()

    def _deserialize(self, value: Any, attr: str | None, data: Any, **kwargs: Any) -> Any:  # noqa: ANN401, ARG002
        return self.read(value)


class WholeNumber(AskedField):
    """An integer, or a float without a fraction, as JSON Schema defines integers; no bool and no string."""

    def __init__(self, span: Span, **kwargs: Any) -> None:  # noqa: ANN401 - marshmallow's own options
        super().__init__(**kwargs)
        self._least, self._greatest = int(span.least), int(span.greatest)
        self._refusal = f"must be a whole number from {self._least:,} to {self._greatest:,}"

    def read(self, value: object) -> int:
        """Refuses everything but a whole number inside the span."""
        if type(value) is not int:
            if type(value) is not float or not value.is_integer():
                raise MisreadError(_but(self._refusal, value))
            value = int(value)
        if not self._least <= value <= self._greatest:
            raise MisreadError(self._refusal)
        return value

    def read_text(self, text: str) -> int:
        """Numbers as JSON spells them, 80e9 too: int() would take "1_000", " 5" and digits of other scripts."""
        if len(text) > limits.NUMERAL_CHARACTERS or not _number(text):
            raise MisreadError(self._refusal)
        if _whole_number(text):
            return self.read(int(text))
        # As a body is read: exact, since no span goes beyond what a float holds exactly; 1e999999 is infinite at once.
        value = float(text)
        if not value.is_integer():
            raise MisreadError(self._refusal)
        return self.read(value)

    def described(self) -> Properties:
        """An integer between two bounds."""
        return {"type": "integer", "minimum": self._least, "maximum": self._greatest}


class Number(AskedField):
    """A finite number; no bool and no string. One without a fraction becomes an int, so 7e9 and 7000000000 are one."""

    def __init__(self, span: Span, **kwargs: Any) -> None:  # noqa: ANN401 - marshmallow's own options
        super().__init__(**kwargs)
        self._span = span
        least = f"above {span.least:,}" if span.above_least else f"from {span.least:,}"
        self._refusal = f"must be a number {least} to {span.greatest:,}"

    def read(self, value: object) -> float:
        """Refuses everything but a number inside the span; infinity and NaN are in no span."""
        if type(value) is not float and type(value) is not int:
            raise MisreadError(_but(self._refusal, value))
        least, greatest, above_least = self._span
        if not least <= value <= greatest or (above_least and value == least):
            raise MisreadError(self._refusal)
        return int(value) if type(value) is float and value.is_integer() else value

    def read_text(self, text: str) -> float:
        """Plain decimals and exponents; digits alone stay exact, as they do in JSON."""
        if len(text) > limits.NUMERAL_CHARACTERS or not _number(text):
            raise MisreadError(self._refusal)
        return self.read(int(text) if _whole_number(text) else float(text))

    def described(self) -> Properties:
        """A number between two bounds."""
        lower = "exclusiveMinimum" if self._span.above_least else "minimum"
        return {"type": "number", lower: self._span.least, "maximum": self._span.greatest}


class Flag(AskedField):
    """true or false; no 0, no "yes"."""

    def read(self, value: object) -> bool:
        """Refuses everything but the two."""
        if type(value) is not bool:
            raise MisreadError(_but("must be true or false", value))
        return value

    def read_text(self, text: str) -> bool:
        """Exactly `true` or `false`."""
        if text not in {"true", "false"}:
            raise MisreadError("must be true or false")
        return text == "true"

    def described(self) -> Properties:
        """A boolean."""
        return {"type": "boolean"}


class Name(AskedField):
    """A short name in Unicode form C, so that é is one name however it was typed."""

    def read(self, value: object) -> str:
        """Refuses other types, empty and long names, and characters that nobody can see."""
        if type(value) is not str:
            raise MisreadError(_but("must be a string", value))
        if not 0 < len(value) <= limits.NAME_CHARACTERS:
            raise MisreadError(f"must have 1 to {limits.NAME_CHARACTERS} characters")
        if not (value.isascii() and value.isprintable()):
            value = _normal(value)
        if value != value.strip():
            raise MisreadError("must not begin or end with a blank")
        return value

    def described(self) -> Properties:
        """A string without blanks at its ends."""
        return {"type": "string", "minLength": 1, "maxLength": limits.NAME_CHARACTERS, "pattern": r"^\S(.*\S)?$"}


class Choice(AskedField):
    """One of a closed set of names."""

    def __init__(self, options: Sequence[str], **kwargs: Any) -> None:  # noqa: ANN401 - marshmallow's own options
        super().__init__(**kwargs)
        self.options = tuple(options)
        self._known = frozenset(options)

    def read(self, value: object) -> str:
        """Refuses everything outside the set, naming the set."""
        if type(value) is not str or value not in self._known:
            near = nearest(value, self.options) if type(value) is str else ()
            raise MisreadError("must be one of " + ", ".join(self.options), nearest=near)
        return value

    def described(self) -> Properties:
        """An enumeration, with its type."""
        return {"type": "string", "enum": list(self.options)}


class CommandLine(AskedField):
    """A command line as it is pasted from a script, line breaks and all."""

    longest = limits.COMMAND_CHARACTERS

    def read(self, value: object) -> str:
        """Refuses other types, lengths out of range and controls other than white space."""
        if type(value) is not str:
            raise MisreadError(_but("must be a string", value))
        if not 0 < len(value) <= self.longest:
            raise MisreadError(f"must have 1 to {self.longest:,} characters")
        return value if _plain_lines(value) else _normal(value, allowed="\t\n\r")

    def described(self) -> Properties:
        """A longer string."""
        return {"type": "string", "minLength": 1, "maxLength": self.longest}


class Command(CommandLine):
    """A command line, or the words of one as a container's manifest lists them; kept as a line either way."""

    def read(self, value: object) -> str:
        """Quotes the words of a list, so that each of them stays one word."""
        if type(value) is not list:
            return super().read(value)
        if not 0 < len(value) <= limits.COMMAND_WORDS:
            raise MisreadError(f"must have 1 to {limits.COMMAND_WORDS:,} words")
        for index, word in enumerate(value):
            if type(word) is not str:
                raise MisreadError(_but("must be a string", word), f"/{index}")
        return super().read(shlex.join(value))

    def read_text(self, text: str) -> str:
        """A line alone."""
        return super().read(text)

    def described(self) -> Properties:
        """A string, in a body also a list of them."""
        line = super().described()
        if not self.nullable:
            return line
        words: Properties = {"items": {"type": "string"}, "minItems": 1, "maxItems": limits.COMMAND_WORDS}
        return {**line, "type": ["string", "array"], **words}

    def echoed(self) -> Properties:
        """A string."""
        return super().described()


class ListOf(AskedField):
    """A list of one type; comma-separated in a query string."""

    def __init__(
        self,
        entry: AskedField,
        most: int = limits.LIST_ENTRIES,
        **kwargs: Any,  # noqa: ANN401 - marshmallow's own options
    ) -> None:
        super().__init__(**kwargs)
        self.entry, self.most = entry, most
        self._refusal = f"must be a list of 1 to {most:,} entries"

    def read(self, value: object) -> list[object]:
        """Refuses what is no list, is empty or too long; a bad entry is named by its index."""
        if type(value) is not list or not 0 < len(value) <= self.most:
            raise MisreadError(self._refusal)
        return self._each(value, self.entry.read)

    def read_text(self, text: str) -> list[object]:
        """Split at commas."""
        entries = text.split(",", self.most)
        if len(entries) > self.most:
            raise MisreadError(self._refusal)
        return self._each(entries, self.entry.read_text)

    def described(self) -> Properties:
        """An array of the entry's schema."""
        return {"type": "array", "items": self.entry.described(), "minItems": 1, "maxItems": self.most}

    @staticmethod
    def _each(entries: Sequence[Given], read: Callable[[Given], object]) -> list[object]:
        values = []
        for index, entry in enumerate(entries):
            try:
                values.append(read(entry))
            except MisreadError as error:
                raise MisreadError(error.sentence, f"/{index}{error.at}") from None
        return values


class Document(AskedField):
    """An object of names that others chose, such as a published config.json; its values must be plain JSON."""

    def read(self, value: object) -> dict[str, object]:
        """Refuses what is no object, and numbers and strings inside it that JSON cannot carry back."""
        if type(value) is not dict:
            raise MisreadError(_but("must be an object", value))
        if not _is_plain(value):
            _refuse_odd(value, "")
        return value

    def described(self) -> Properties:
        """An open object."""
        return {"type": "object", "additionalProperties": True}


class Moment(AskedField):
    """A time with an offset (RFC 3339); kept in UTC, to the microsecond."""

    def read(self, value: object) -> str:
        """Refuses times without an offset, leap seconds, and times outside the calendar once in UTC."""
        if type(value) is not str or not _moment(value):
            hint = "; in an address + is written %2B" if type(value) is str and _lost_plus(value) else ""
            raise MisreadError(f"must be a time with an offset, such as 2026-01-31T12:00:00Z{hint}")
        try:
            moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            raise MisreadError("is no time of the calendar") from None
        return moment.isoformat().replace("+00:00", "Z")

    def described(self) -> Properties:
        """A date-time."""
        return {"type": "string", "format": "date-time"}


def _normal(text: str, allowed: str = "") -> str:
    for character in text:
        if unicodedata.category(character) in _UNREADABLE and character not in allowed:
            raise MisreadError(f"holds the character U+{ord(character):04X}, which does not belong in it")
    return unicodedata.normalize("NFC", text)


def _is_plain(value: Any) -> bool:  # noqa: ANN401 - any JSON
    """Whether what parses as JSON can be written back as JSON and be computed with, down to its innermost values."""
    kind = type(value)
    if kind is str:
        return _is_whole(value)
    if kind is int:
        return bool(abs(value) <= limits.MAX_EXACT_INTEGER)
    if kind is float:
        return math.isfinite(value)
    if kind is dict:
        return all(map(_is_whole, value)) and all(map(_is_plain, value.values()))
    return kind is not list or all(map(_is_plain, value))


def _refuse_odd(value: object, at: str) -> None:
    """Say where the value is that is not plain, which takes longer than to see that there is one."""
    if isinstance(value, dict):
        for name, inner in value.items():
            _refuse_torn(name, at)
            _refuse_odd(inner, f"{at}/{escaped(name[: limits.POINTER_CHARACTERS])}")
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _refuse_odd(inner, f"{at}/{index}")
    elif isinstance(value, str):
        _refuse_torn(value, at)
    elif isinstance(value, float) and not math.isfinite(value):
        raise MisreadError("is beyond the numbers of JSON", at)
    elif isinstance(value, int) and abs(value) > limits.MAX_EXACT_INTEGER:
        raise MisreadError(f"is beyond {limits.MAX_EXACT_INTEGER:,}", at)


def _refuse_torn(text: str, at: str) -> None:
    if not _is_whole(text):
        raise MisreadError("holds half of a surrogate pair", at)


def _is_whole(text: str) -> bool:
    return text.isascii() or not any("\ud800" <= character <= "\udfff" for character in text)


def escaped(name: str) -> str:
    """A name as one step of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _but(refusal: str, value: object) -> str:
    return f"{refusal}, not {_KINDS.get(type(value), 'a fraction')}"


_KINDS: Mapping[type, str] = {
    bool: "true or false",
    dict: "an object",
    list: "a list",
    str: "a string",
    type(None): "null",
    int: "a number",
}
