"""Answers as responses: plain dicts written by json, tagged on GET. Tests prove that they fit their schemas."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request

from service.api import conditional
from service.api.bodies import JSON_TYPE
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


def answered(asked: Asked, answer: Callable[[Asked, Catalog], Answer]) -> Response:
    """The answer to a question that was read; on GET with a tag, and 304 where the client has it."""
    catalog = catalog_at(asked.get("as_of"))
    if request.method == "POST":
        return posted(answer(asked, catalog))
    tag = conditional.question_tag(request.path, asked, catalog.revision, catalog.calibration.revision)
    known = request.environ.get("HTTP_IF_NONE_MATCH")
    if conditional.matches(known, tag, exists=False):
        return conditional.not_modified(tag)
    body = _body(answer(asked, catalog))
    # `*` is only known to match once the question turned out to have an answer.
    return conditional.not_modified(tag) if conditional.matches(known, tag) else _response(body, tag)


def posted(answer: Answer) -> Response:
    """The answer to a POST that stores nothing."""
    return _response(_body(answer))


def tagged(
    tag: str, write: Callable[[], str], content_type: str = JSON_TYPE, headers: Mapping[str, str] | None = None
) -> Response:
    """A GET's text under a tag that is known before it is written, which it only is where the client lacks it."""
    if conditional.matches(request.environ.get("HTTP_IF_NONE_MATCH"), tag):
        response = conditional.not_modified(tag)
    else:
        response = _response(write().encode(), tag, content_type)
    response.headers.extend(headers or {})
    return response


def document(content: str, content_type: str = JSON_TYPE, *, cache: str = conditional.CACHE_CONTROL) -> Response:
    """A GET's text, tagged by its own bytes."""
    body = content.encode()
    tag = conditional.body_tag(body)
    if conditional.matches(request.environ.get("HTTP_IF_NONE_MATCH"), tag):
        return conditional.not_modified(tag)
    return _response(body, tag, content_type, cache)


def _body(answer: Answer) -> bytes:
    return (encode(answer) + "\n").encode()


def _response(
    body: bytes, tag: str | None = None, content_type: str = JSON_TYPE, cache: str = conditional.CACHE_CONTROL
) -> Response:
    headers = [("Content-Length", str(len(body))), ("Content-Type", content_type), ("Cache-Control", cache)]
    if tag is not None:
        headers.append(("ETag", tag))
    return Response([body], 200, headers)
