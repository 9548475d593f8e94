"""How a program's values are written where they are sent: in a query string, in a path, in a JSON document."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any
from urllib.parse import quote
from uuid import UUID

from kvquote_client.errors import InvalidInput


def encoded(document: object) -> bytes:
    """A JSON document as it is sent; times and UUIDs are written as text.

    Raises:
        InvalidInput: it holds what JSON does not know: NaN, infinity, half a character, an object of a program.
    """
    try:
        return json.dumps(
            document, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=_as_text
        ).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"cannot be said in JSON: {error}") from error


def query_words(names: Mapping[str, Any]) -> dict[str, str]:
    """The names of a query that were given, as the service reads them: lists with commas, booleans true and false."""
    return {name: _word(value) for name, value in names.items() if value is not None}


def path_to(resource: str, name: str, *rest: str) -> str:
    """The address of one entry; a hub id's slash is no step of the path.

    Raises:
        InvalidInput: a name that HTTP takes for a step up, or for none.
    """
    if name in {"", ".", ".."}:
        raise InvalidInput(f"{name!r} is no name of an entry")
    try:
        return "/".join((resource, quote(name, safe=""), *rest))
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{name!r} is no text") from error


def _word(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ",".join(_word(each) for each in value)
    return value if isinstance(value, str) else _as_text(value)


def _as_text(value: object) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise InvalidInput(f"{value} names no offset: which time zone is it in?")
        return value.isoformat()
    if isinstance(value, UUID | int | float):
        return str(value)
    raise InvalidInput(f"a {type(value).__name__} cannot be sent")
