"""The types that a measurement is made of: stricter than a question's, since what is kept must name no machine."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from service.api import limits
from service.api.limits import Span
from service.api.schemas.fields import (
    AskedField,
    CommandLine,
    MisreadError,
    Name,
    Number,
    Properties,
    WholeNumber,
    escaped,
)
from service.api.schemas.question import TrafficQuestion
from service.domain.errors import nearest
from service.domain.private_words import (
    holds_secret,
    is_place,
    names_device,
    names_machine,
    names_secret,
    private_in_command,
)

MOST_SAMPLES = 200
_EXACT = limits.MAX_EXACT_INTEGER


class Uuid(AskedField):
    """A UUID in its canonical form, hyphens and all; capital letters are made small."""

    _form = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch

    def read(self, value: object) -> str:
        """Refuses braces, urn:uuid: and digits without hyphens: one id has one spelling."""
        if type(value) is not str or len(value) != 36 or not self._form(value.lower()):  # noqa: PLR2004
            raise MisreadError("must be a UUID such as 0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10")
        return value.lower()

    def described(self) -> Properties:
        """A string."""
        return {"type": "string", "format": "uuid"}


class Word(Name):
    """A short text that names no machine and hands over no secret: no path, no address and no key."""

    def read(self, value: object) -> str:
        """Refuses what looks like a path, a URL or a key besides what no name may hold."""
        text = super().read(value)
        if is_place(text):
            raise MisreadError("looks like a path or an address, which is not kept")
        if holds_secret(text):
            raise MisreadError("looks like a key, a token or a password, which is not kept")
        if names_machine(text):
            raise MisreadError("looks like the name of a machine, which is not kept")
        if names_device(text):
            raise MisreadError("holds the id of one card, which is not kept")
        return text


class PlainCommand(CommandLine):
    """A command line that names neither paths nor machines, and holds no secret: whoever may read may read it."""

    longest = limits.KEPT_COMMAND_CHARACTERS

    def read(self, value: object) -> str:
        """Refuses one that does."""
        text = super().read(value)
        private = private_in_command(text)
        if private is not None:
            raise MisreadError(private)
        return text


class KindName(AskedField):
    """The name of a kind, also of one that is not known yet."""

    _form = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch

    def read(self, value: object) -> str:
        """Refuses what no kind will be called."""
        if type(value) is not str or not self._form(value):
            raise MisreadError("must be a kind such as device_memory")
        return value

    def described(self) -> Properties:
        """A string."""
        return {"type": "string", "pattern": "^[a-z][a-z0-9_]{0,63}$"}


class Version(Word):
    """A version or capability, as a text or as the number that it looks like."""

    def read(self, value: object) -> str:
        """Takes 9.0 for "9.0"."""
        return super().read(str(value) if type(value) in {int, float} else value)

    def described(self) -> Properties:
        """A string or a number."""
        return {"type": ["string", "number"]}


class Pair(AskedField):
    """Two whole numbers, the second above the first."""

    def read(self, value: object) -> list[int]:
        """Refuses other lengths and orders."""
        if type(value) is not list or len(value) != 2:  # noqa: PLR2004
            raise MisreadError("must be a list of two whole numbers")
        pair = [COUNT.read(entry) for entry in value]
        if pair[0] >= pair[1]:
            raise MisreadError("must rise: the second number above the first")
        return pair

    def described(self) -> Properties:
        """An array of two integers."""
        return {"type": "array", "items": COUNT.described(), "minItems": 2, "maxItems": 2}


class Samples(AskedField):
    """Raw readings of the first value."""

    def read(self, value: object) -> list[float]:
        """Refuses more than 200 and what is no number."""
        if type(value) is not list or len(value) > MOST_SAMPLES:
            raise MisreadError(f"must be a list of at most {MOST_SAMPLES} numbers")
        return each(value, ANY_NUMBER.read)

    def described(self) -> Properties:
        """An array of numbers."""
        return {"type": "array", "items": {"type": "number"}, "maxItems": MOST_SAMPLES}


class Either(AskedField):
    """What one of two fields takes."""

    def __init__(self, first: AskedField, second: AskedField) -> None:
        super().__init__()
        self._fields = first, second

    def read(self, value: object) -> object:
        """Refused by both is refused in the words of the second."""
        try:
            return self._fields[0].read(value)
        except MisreadError:
            return self._fields[1].read(value)

    def described(self) -> Properties:
        """Either."""
        return {"anyOf": [field.described() for field in self._fields]}


class Group(AskedField):
    """An object of known names, null and absent alike; others are refused, with the nearest name that is known."""

    def __init__(self, fields: Mapping[str, AskedField]) -> None:
        super().__init__()
        self.known = dict(fields)

    def read(self, value: object) -> dict[str, object]:
        """Stops at the first value that its field refuses."""
        if type(value) is not dict:
            raise MisreadError("must be an object")
        return {name: read for name, given in value.items() if (read := self._one(name, given)) is not None}

    def described(self) -> Properties:
        """A closed object."""
        inner = {name: nullable(field.described()) for name, field in self.known.items()}
        return {"type": "object", "properties": inner, "additionalProperties": False}

    def _one(self, name: str, given: object) -> object:
        field = self.known.get(name)
        if field is None:
            raise MisreadError("is not a name that is known here", step(name), nearest(name[:64], self.known))
        if given is None:
            return None
        try:
            return field.read(given)
        except MisreadError as error:
            raise MisreadError(error.sentence, step(name) + error.at, error.nearest) from None


class SetupConfig(AskedField):
    """A published config.json, without the folder that it was loaded from, paths and secrets, however deep."""

    _document = TrafficQuestion().fields["config"]

    def read(self, value: object) -> dict[str, object]:
        """Takes plain JSON."""
        config: dict[str, object] = self._document.read(value)  # type: ignore[attr-defined]  # an AskedField
        return _public(config)

    def described(self) -> Properties:
        """An open object."""
        return {"type": "object", "additionalProperties": True}


def _public(config: Mapping[str, object]) -> dict[str, object]:
    """The same without what would tell whose it is; shapes are numbers and short words, which stay."""
    kept = {name: inner for name, inner in config.items() if not (_is_private_name(name) or _is_private(inner))}
    return {name: _public_inside(inner) for name, inner in kept.items()}


def _public_inside(value: object) -> object:
    if isinstance(value, dict):
        return _public(value)
    if isinstance(value, list):
        return [_public_inside(inner) for inner in value if not _is_private(inner)]
    return value


def _is_private_name(name: str) -> bool:
    return name == "_name_or_path" or names_secret(name) or _is_private(name)


def _is_private(value: object) -> bool:
    return isinstance(value, str) and private_in_command(value) is not None


def nullable(described: Properties) -> Properties:
    """The same, or null."""
    kind = described.get("type")
    if isinstance(kind, str) and "enum" not in described:
        return {**described, "type": [kind, "null"]}
    return {"anyOf": [described, {"type": "null"}]}


def each(values: list[object], read: Callable[[object], Any]) -> list[Any]:
    """Every entry read; one that is refused is named by its index."""
    found = []
    for index, value in enumerate(values):
        try:
            found.append(read(value))
        except MisreadError as error:
            raise MisreadError(error.sentence, f"/{index}{error.at}") from None
    return found


def step(name: str) -> str:
    """A name as one step of a pointer, cut where it is long."""
    return f"/{escaped(name[: limits.POINTER_CHARACTERS])}"


COUNT = WholeNumber(Span(0, _EXACT))
POSITIVE = WholeNumber(Span(1, _EXACT))
ANY_NUMBER = Number(Span(-1e24, 1e24))
RATE = Number(Span(0, 1e24, above_least=True))
SECONDS = Number(Span(0, 1e6, above_least=True))
AMOUNT = Number(Span(0, 1e12))
WORD = Word()
