"""Reading a request's body: how long it may be, what it must be, and JSON without its traps.

Flask's get_json() is not used: it cuts a chunked body at the limit and answers from the rest, takes UTF-16, keeps the
last of two equal names, lets NaN in and fails with RecursionError on deep nesting.
"""

import json
import re
from codecs import BOM_UTF8
from typing import TYPE_CHECKING, NoReturn

from werkzeug.http import parse_options_header

from service.api import limits
from service.api.problems import ProblemError
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

JSON_TYPE = "application/json"
READ_BYTES = 64 * 1024

# Strings first, so that brackets inside them do not count; possessive, so that no input makes the search go back.
_strings = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_OPENING = frozenset(b"[{")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def read_object(environ: "WSGIEnvironment", most_bytes: int, most_levels: int) -> dict[str, object]:
    """The JSON object that is the request's body.

    Raises ProblemError for a body that breaks a rule of HTTP or JSON, and ValidationError for JSON that is no object.
    """
    value = parse(read_body(environ, most_bytes), most_levels)
    if type(value) is not dict:
        raise ValidationError(Fault("", "The body must be a JSON object."))
    return value


def read_body(environ: "WSGIEnvironment", most_bytes: int) -> bytes:
    """The text of a JSON body, not parsed yet; raises ProblemError."""
    _check_type(environ)
    return read_bytes(environ, most_bytes)


def parse(body: bytes, most_levels: int, first_line: int = 1) -> object:
    """JSON in UTF-8, refusing what RFC 8259 does not know and what it leaves open; raises ProblemError.

    `first_line` is the number of the body's first line where it stands in something larger.
    """
    if body.startswith(BOM_UTF8):
        raise ProblemError("malformed-json", "The body begins with a byte order mark; JSON has none.")
    try:
        _check_depth(body, most_levels)
        return _decode(body.decode())
    except UnicodeDecodeError as error:
        detail = f"The body is not UTF-8: byte {error.start + 1:,} does not belong there."
        raise ProblemError("malformed-json", detail) from None
    except json.JSONDecodeError as error:
        detail = f"Line {first_line + error.lineno - 1}, column {error.colno}: {error.msg}."
        raise ProblemError("malformed-json", detail) from None
    except ValueError:
        # What is left is Python's guard against numerals of thousands of digits.
        raise ProblemError("malformed-json", "The body holds a number of thousands of digits.") from None


def _check_type(environ: "WSGIEnvironment") -> None:
    given = environ.get("CONTENT_TYPE", "")
    if given != JSON_TYPE:
        kind, options = parse_options_header(given)
        if kind.lower() != JSON_TYPE:
            named = f"not {kind[: limits.POINTER_CHARACTERS]}" if kind else "and Content-Type says nothing"
            raise ProblemError("unsupported-media-type", f"The body must be {JSON_TYPE}, {named}.")
        if options.get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
            raise ProblemError("unsupported-media-type", "The body must be in UTF-8.")
    if environ.get("HTTP_CONTENT_ENCODING", "identity").lower() != "identity":
        raise ProblemError("unsupported-media-type", "The body must not be compressed.")


def read_bytes(environ: "WSGIEnvironment", most_bytes: int) -> bytes:
    """The body as it was sent, whole or not at all; raises ProblemError."""
    announced = environ.get("CONTENT_LENGTH")
    if announced:
        return _read_announced(environ, announced, most_bytes)
    if environ.get("HTTP_TRANSFER_ENCODING", "").strip().lower() != "chunked":
        raise ProblemError("length-required", "The request gives no Content-Length.")
    # One byte more than allowed tells a body of exactly the limit from one that was cut there.
    body = _take(environ, most_bytes + 1)
    if len(body) > most_bytes:
        _too_large(most_bytes)
    return body


def _read_announced(environ: "WSGIEnvironment", announced: str, most_bytes: int) -> bytes:
    if not (announced.isascii() and announced.isdecimal() and len(announced) <= limits.NUMERAL_CHARACTERS):
        raise ProblemError("malformed-request", "Content-Length must be a whole number.")
    length = int(announced)
    if length > most_bytes:
        _too_large(most_bytes)
    body = _take(environ, length)
    if len(body) < length:
        raise ProblemError("malformed-request", f"The body ends after {len(body):,} of {length:,} bytes.")
    return body


def _take(environ: "WSGIEnvironment", most_bytes: int) -> bytes:
    stream, parts, missing = environ["wsgi.input"], [], most_bytes
    try:
        while missing > 0 and (part := stream.read(min(missing, READ_BYTES))):
            parts.append(part)
            missing -= len(part)
    except Exception as error:
        # Whatever class the server gives a broken chunk or a lost connection, the request is what is broken.
        raise ProblemError("malformed-request", "The body could not be read to its end.") from error
    return b"".join(parts)


def _too_large(most_bytes: int) -> NoReturn:
    raise ProblemError("too-large", f"The body may have at most {most_bytes:,} bytes.")


def _check_depth(body: bytes, most_levels: int) -> None:
    # Too few brackets for too much depth is what nearly every body has, and costs nothing to see.
    if body.count(b"[") + body.count(b"{") <= most_levels:
        return
    level = 0
    for bracket in _strings.sub(b"", body).translate(None, _NOT_BRACKETS):
        level += 1 if bracket in _OPENING else -1
        if level > most_levels:
            raise ProblemError("too-deep", f"Objects and lists may stand at most {most_levels} levels deep.")


def _refuse_constant(name: str) -> NoReturn:
    raise ProblemError("malformed-json", f"{name} is not a JSON value.")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        seen: set[str] = set()
        twice = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        raise ProblemError("duplicate-key", f"{twice[: limits.POINTER_CHARACTERS]!r} is given twice in one object.")
    return unique


# One decoder for all requests: json.loads builds one per call when it is given hooks.
_decode = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant).decode
