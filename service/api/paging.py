"""Cursors and links: a page is named by where the last one ended and by the question it belongs to."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from hashlib import blake2b
from urllib.parse import quote, urlencode

from service.api import limits
from service.api.schemas.closed import Asked
from service.domain.errors import Fault, ValidationError

CURSOR_PATTERN = rf"^[A-Za-z0-9_-]{{12,{limits.CURSOR_CHARACTERS}}}$"

_DIGEST_BYTES = 8
# What may differ between the pages of one question.
_FREE = frozenset({"cursor", "limit", "format"})
_cursor = re.compile(CURSOR_PATTERN).fullmatch
_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


def make_cursor(path: str, asked: Asked, last: str) -> str:
    """The cursor of the page after the one that ends with the key `last`, for that path and question only."""
    return urlsafe_b64encode(_digest(path, asked, last) + last.encode()).decode().rstrip("=")


def read_cursor(path: str, asked: Asked) -> str:
    """The key after which the page begins, "" for the first one.

    Raises ValidationError for a cursor that was cut, made up, or given out for another question.
    """
    cursor = asked.get("cursor")
    if cursor is None:
        return ""
    try:
        packed = urlsafe_b64decode(f"{cursor}{'=' * (-len(cursor) % 4)}") if _cursor(cursor) else b""
        last = packed[_DIGEST_BYTES:].decode()
    except (Base64Error, UnicodeDecodeError):
        packed, last = b"", ""
    if packed[:_DIGEST_BYTES] != _digest(path, asked, last):
        detail = "cursor is not one of this question: take next_cursor as it is, with the same filters."
        raise ValidationError(Fault("/cursor", detail))
    return last


def next_link(path: str, given: Mapping[str, str], cursor: str) -> str:
    """The Link header that leads to the next page: the same query with another cursor."""
    query = urlencode({**given, "cursor": cursor}, safe=",:")
    return f'<{quote(path)}?{query}>; rel="next"'


def _digest(path: str, asked: Asked, last: str) -> bytes:
    filters = {name: value for name, value in asked.items() if name not in _FREE}
    return blake2b(f"{path}\0{_canonical(filters)}\0{last}".encode(), digest_size=_DIGEST_BYTES).digest()
