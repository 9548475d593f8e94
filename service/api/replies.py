"""Answers as responses: plain dicts written as JSON, tagged on GET. Tests prove that they fit their schemas."""

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from math import inf
from typing import Any

import orjson
from flask import Response, request

from service.api import conditional
from service.api.bodies import JSON_TYPE
from service.api.responses import CompleteResponse
from service.api.schemas.closed import Asked
from service.api.services import catalog_at
from service.domain.question import Catalog

Answer = Mapping[str, Any]
NO_STORE = "no-store"

# Strict JSON: a number that is not finite is a fault of ours, and must not reach a client as `Infinity`.
encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode
# The same value is the same text, whatever order its names came in.
encode_sorted = json.JSONEncoder(
    separators=(",", ":"), allow_nan=False, check_circular=False, ensure_ascii=False, sort_keys=True
).encode
# What orjson writes as json does, or raises for; a subclass is neither, for an Enum would be written as its value.
_PLAIN = frozenset({str, int, bool, type(None)})
# Below it orjson spells a number otherwise than json: 0.00001 for 1e-05.
_LEAST_ALIKE = 1e-4


def answered(asked: Asked, answer: Callable[[Asked, Catalog], Answer]) -> Response:
    """The answer to a question that was read; on GET with a tag, and 304 where the client has it."""
    catalog = catalog_at(asked.get("as_of"))
    if request.method == "POST":
        return posted(answer(asked, catalog))
    tag = conditional.question_tag(request.path, asked, catalog.revision, catalog.calibration.revision)
    known = request.environ.get("HTTP_IF_NONE_MATCH")
    if conditional.matches(known, tag, exists=False):
        return conditional.not_modified(tag)
    body = written(answer(asked, catalog))
    # `*` is only known to match once the question turned out to have an answer.
    return conditional.not_modified(tag) if conditional.matches(known, tag) else _response(body, tag)


def posted(answer: Answer) -> Response:
    """The answer to a POST that stores nothing."""
    return _response(written(answer))


def tagged(
    tag: str, write: Callable[[], str], content_type: str = JSON_TYPE, headers: Mapping[str, str] | None = None
) -> Response:
    """A GET's text under a tag that is known before it is written, which it only is where the client lacks it."""
    if conditional.matches(request.environ.get("HTTP_IF_NONE_MATCH"), tag):
        response = conditional.not_modified(tag)
    else:
        response = _response(write().encode(), tag, content_type)
    if headers:
        response.headers.extend(headers)
    return response


def document(content: str, content_type: str = JSON_TYPE, *, cache: str = conditional.CACHE_CONTROL) -> Response:
    """A GET's text, tagged by its own bytes."""
    body = content.encode()
    tag = conditional.body_tag(body)
    if conditional.matches(request.environ.get("HTTP_IF_NONE_MATCH"), tag):
        return conditional.not_modified(tag, cache)
    return _response(body, tag, content_type, cache)


def failed_document(content: str, status: int) -> Response:
    """A GET's text that says what is wrong: no client has it already, whatever its tags are."""
    response = _response(content.encode(), cache=NO_STORE)
    response.status_code = status
    return response


def written(answer: Answer) -> bytes:
    """The answer as a line of strict JSON, the same value whoever writes it; raises ValueError for what JSON has not.

    orjson takes an eighth of json's time, and is asked where it says the same: it would write null for what is not
    finite. What it refuses and JSON allows, such as integers beyond 64 bits and lone surrogates, is left to json.
    """
    if _is_plain(answer):
        with suppress(orjson.JSONEncodeError):
            return orjson.dumps(answer, option=orjson.OPT_APPEND_NEWLINE)
    return (encode(answer) + "\n").encode()


def _is_plain(answer: Answer) -> bool:
    """Whether orjson and json write the same of it, down to the last digit of its numbers."""
    left: list[Iterable[Any]] = [answer.values()]
    for values in left:
        for value in values:
            kind = type(value)
            if kind in _PLAIN:
                continue
            if kind is dict:
                left.append(value.values())
            elif kind is list or kind is tuple:
                left.append(value)
            elif kind is not float or not (value == 0 or _LEAST_ALIKE <= abs(value) < inf):
                return False
    return True


def _response(
    body: bytes, tag: str | None = None, content_type: str = JSON_TYPE, cache: str = conditional.CACHE_CONTROL
) -> Response:
    headers = [("Content-Length", str(len(body))), ("Content-Type", content_type), ("Cache-Control", cache)]
    if tag is not None:
        headers.append(("ETag", tag))
    return CompleteResponse([body], 200, headers)
