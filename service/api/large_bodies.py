"""Bodies of which a few members are large: those are found and left as they came, the others are read as ever.

The header of a checkpoint's files as objects of Python would take eight times its size; its reader walks through the
text and needs none of them.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from service.api import limits
from service.api.bodies import parse, read_body
from service.api.problems import ProblemError
from service.domain.errors import ValidationError
from service.domain.files.json_scan import Scanner

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment


class Text(NamedTuple):
    """The JSON text of a member, or of one item of a member that is a list."""

    data: memoryview

    def is_object(self) -> bool:
        """Whether it begins as an object does."""
        return bytes(self.data[:1]) == b"{"


def read_members(
    environ: "WSGIEnvironment", most_bytes: int, most_levels: int, large: frozenset[str]
) -> dict[str, object]:
    """The members of the object that is the body; large ones as a Text, or a list of them.

    Raises as `read_object` does, but that what stands inside the large ones is for their readers to refuse.
    """
    body = read_body(environ, most_bytes)
    try:
        found = list(_located(body, large))
    except ValidationError:
        # What is no JSON is refused in the words that every body is refused in.
        parse(body, most_levels)
        raise
    members: dict[str, object] = {}
    view = memoryview(body)
    for name, spans in found:
        if name in members:
            raise ProblemError("duplicate-key", f"{name[: limits.POINTER_CHARACTERS]!r} is given twice in one object.")
        texts = [Text(view[begin:end]) for begin, end in spans]
        members[name] = _read(texts, most_levels) if name not in large else texts[0] if len(texts) == 1 else texts
    return members


def _read(texts: list[Text], most_levels: int) -> object:
    return parse(bytes(texts[0].data), most_levels)


def _located(body: bytes, large: frozenset[str]) -> Iterator[tuple[str, list[tuple[int, int]]]]:
    """Each member with where its value stands; a large one that is a list with where its items stand."""
    scanner = Scanner(body, "")
    for name in scanner.members():
        if name in large and scanner.place()[1] == "[":
            yield name, [_passed(scanner, name) for _ in scanner.items()] or [(0, 0)]
        else:
            yield name, [_passed(scanner, name)]
    scanner.end()


def _passed(scanner: Scanner, name: str) -> tuple[int, int]:
    """Where the value that is next begins and ends; of an object no more than a member at once is looked at."""
    begin, sign = scanner.place()
    if sign == "{":
        for inner in scanner.members():
            scanner.value(inner)
    else:
        scanner.value(name)
    return begin, scanner.place()[0]
