"""What lists beside the catalog's are asked with alike: names in any case, and where a page begins."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from flask import request

from service.api import limits
from service.api.paging import make_cursor, read_cursor
from service.api.schemas.closed import Asked
from service.domain.errors import Fault, ValidationError
from service.storage.uploads import folded

Found = TypeVar("Found")

_SEPARATOR = "\n"
# What fits 64 bits whatever the digits are.
_MOST_DIGITS = 18


def folded_names(asked: Sequence[str] | None) -> list[str] | None:
    """Names as rows are found by them; None where nobody asked for any."""
    return None if asked is None else [folded(name) or "" for name in asked]


def page_limit(asked: Asked) -> int:
    """Rows of the page."""
    limit: int = asked.get("limit", limits.PAGE_ENTRIES)
    return limit


def after(asked: Asked, parts: int) -> tuple[str, ...] | None:
    """The key that the last page ended with, of so many parts; None on the first page.

    The cursor's own digest was checked: one of other parts is that of an older release.
    """
    key = read_cursor(request.path, asked)
    if not key:
        return None
    found = tuple(key.split(_SEPARATOR))
    # Whoever reads the source can make a cursor, and PostgreSQL compares with no text that holds a NUL.
    if len(found) != parts or "\0" in key:
        raise foreign_cursor()
    return found


def row_number(text: str) -> int:
    """The number in a cursor's key; raises ValidationError for what no database counts up to."""
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS):
        raise foreign_cursor()
    return int(text)


def cut(
    asked: Asked, found: Sequence[Found], key: Callable[[Found], Sequence[str]]
) -> tuple[Sequence[Found], str | None]:
    """The page of what was found, one row more than it holds at most, and the cursor of the next one."""
    limit = page_limit(asked)
    more = len(found) > limit
    return found[:limit], cursor_after(asked, key(found[limit - 1])) if more else None


def cursor_after(asked: Asked, key: Sequence[str]) -> str:
    """The cursor of the page that follows a row of that key."""
    return make_cursor(request.path, asked, _SEPARATOR.join(key))


def foreign_cursor() -> ValidationError:
    """The refusal of a cursor that this list never gave out."""
    return ValidationError(Fault("/cursor", "cursor is not one of this question."))
