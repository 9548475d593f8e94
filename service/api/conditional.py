"""ETag and If-None-Match: who has the present answer is told so, without the answer being computed again.

Tags are strong, the same from every copy of the service, and never depend on who asks.
"""

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import TYPE_CHECKING

from flask import Response
from werkzeug.http import parse_etags

from service import __version__
from service.api.responses import CompleteResponse

if TYPE_CHECKING:
    from service.domain.catalog import Entry
    from service.storage.catalog import StoredEntry

CACHE_CONTROL = "private, max-age=0, must-revalidate"
_LONGEST_HEADER = 8192

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":"), check_circular=False).encode


def question_tag(path: str, asked: Mapping[str, object], catalog_revision: int, calibration_revision: int = 0) -> str:
    """The tag of an answer, from all that it depends on: resource, question, catalog, calibration and code."""
    return _digest(f"{path} {catalog_revision} {calibration_revision} {__version__} {_canonical(asked)}".encode())


def body_tag(body: bytes) -> str:
    """The tag of a document that is at hand anyway."""
    return _digest(body)


def entry_tag(entry: "StoredEntry | Entry") -> str:
    """The ETag of an entry: it changes when the entry does, and with the code that makes its normal form."""
    return body_tag(f"{entry.kind}/{entry.id} {entry.revision} {__version__}".encode())


def matches(if_none_match: str | None, tag: str, *, exists: bool = True) -> bool:
    """Whether the client has the answer already.

    `*` asks for nothing but that there is one; where that is not known before computing it, pass exists=False.
    """
    if not if_none_match or len(if_none_match) > _LONGEST_HEADER:
        return False
    if if_none_match == tag:
        return True
    given = parse_etags(if_none_match)
    return exists if given.star_tag else given.contains_weak(tag.strip('"'))


def not_modified(tag: str, cache: str = CACHE_CONTROL) -> Response:
    """304 with what a 200 would have said about the answer."""
    return CompleteResponse(status=304, headers=[("ETag", tag), ("Cache-Control", cache)])


def _digest(content: bytes) -> str:
    return f'"{blake2b(content, digest_size=16).hexdigest()}"'
