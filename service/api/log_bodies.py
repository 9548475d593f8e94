"""The log in a request: text, lines of JSON, or a member of a JSON object; decoded piece by piece, never as a whole."""

import codecs
import json
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from werkzeug.http import parse_options_header

from service.api import limits
from service.api.bodies import JSON_TYPE, parse, read_bytes
from service.api.packed import unpacked
from service.api.problems import ProblemError
from service.api.uploads import NDJSON_TYPES
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

TEXT_TYPES: Final = frozenset({"text/plain", "application/octet-stream"})
_CHARSETS: Final = {
    "utf-8": "utf-8",
    "utf8": "utf-8",
    "us-ascii": "utf-8",
    # Without a byte order mark it is that of Windows.
    "utf-16": "utf-16-le",
    "utf-16le": "utf-16-le",
    "iso-8859-1": "latin-1",
    "windows-1252": "cp1252",
}
_MARKS: Final = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_PIECE_BYTES: Final = 1 << 16
# Strings as a whole and the signs between them; possessive, so that no input makes the search go back.
_tokens = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]', re.DOTALL)
_MOST_TOKENS: Final = 100_000


class LogBody(NamedTuple):
    """The text of a log in pieces, and the other members of the object that it came in; None where it came alone."""

    pieces: Iterator[str]
    members: dict[str, Any] | None


def read_log(environ: "WSGIEnvironment", most_levels: int) -> LogBody:
    """The log of the request.

    Raises ProblemError for what breaks a rule of HTTP or a limit, and ValidationError for an object without a log.
    """
    kind, options = parse_options_header(environ.get("CONTENT_TYPE", ""))
    kind = kind.lower()
    if kind not in TEXT_TYPES and kind not in NDJSON_TYPES and kind != JSON_TYPE:
        named = f"not {kind[: limits.POINTER_CHARACTERS]}" if kind else "and Content-Type says nothing"
        detail = f"A log is text/plain, application/x-ndjson or {JSON_TYPE}, {named}: send Content-Type: text/plain."
        raise ProblemError("unsupported-media-type", detail)
    charset = _CHARSETS.get(options.get("charset", "utf-8").lower())
    if charset is None or (kind == JSON_TYPE and charset != "utf-8"):
        raise ProblemError("unsupported-media-type", "The log must be in UTF-8, UTF-16 or ISO-8859-1, JSON in UTF-8.")
    body = unpacked(environ, read_bytes(environ, limits.LOG_BYTES), limits.LOG_BYTES)
    if kind == JSON_TYPE:
        return _from_object(body, most_levels)
    return LogBody(_decoded(body, charset), None)


def _decoded(body: bytes, charset: str) -> Iterator[str]:
    """The text in pieces; what is not of the charset is replaced, and a byte order mark decides the charset."""
    charset = next((known for mark, known in _MARKS if body.startswith(mark)), charset)
    decoder = codecs.getincrementaldecoder(charset)("replace")
    view = memoryview(body)
    for begin in range(0, len(body), _PIECE_BYTES):
        yield decoder.decode(bytes(view[begin : begin + _PIECE_BYTES]))
    yield decoder.decode(b"", final=True)


def _from_object(body: bytes, most_levels: int) -> LogBody:
    span = _log_of(body)
    if span is None:
        return _without_log(body, most_levels)
    begin, end = span
    view = memoryview(body)
    rest = b"".join((view[: begin - 1], b'""', view[end + 1 :]))
    members = parse(rest, most_levels)
    if type(members) is not dict:
        raise ValidationError(Fault("", 'The body must be a JSON object: {"log": "…"}.'))
    return LogBody(_unescaped(view[begin:end]), members)


def _without_log(body: bytes, most_levels: int) -> LogBody:
    """Refused in the words for what it is: no JSON, no object, or a log that is no text."""
    if len(body) > limits.IMPORT_BYTES // 16:
        raise ValidationError(Fault("/log", "log must be a string: the log's text."))
    members = parse(body, most_levels)
    if type(members) is not dict:
        raise ValidationError(Fault("", 'The body must be a JSON object: {"log": "…"}.'))
    return LogBody(iter(()), members)


def _log_of(body: bytes) -> tuple[int, int] | None:
    """Where the text of the outermost member `log` begins and ends, between its quotes; None where there is none."""
    level, name, expects = 0, b"", False
    for count, found in enumerate(_tokens.finditer(body)):
        begin, end = found.span()
        sign = body[begin : begin + 1]
        if count > _MOST_TOKENS:
            return None
        if sign == b'"':
            if expects:
                return begin + 1, end - 1
            name = body[begin:end] if end - begin <= limits.POINTER_CHARACTERS else b""
            continue
        expects = sign == b":" and level == 1 and name == b'"log"'
        level += (sign in b"{[") - (sign in b"}]")
        name = b""
    return None


def _unescaped(text: memoryview) -> Iterator[str]:
    """A JSON string's text in pieces, each cut where neither an escape nor a letter is."""
    at = 0
    while at < len(text):
        end = _cut(text, at, min(at + _PIECE_BYTES, len(text)))
        try:
            yield json.loads(b'"' + bytes(text[at:end]) + b'"')
        except (ValueError, UnicodeDecodeError):
            detail = (
                f"log is no JSON string: something in its bytes {at + 1:,} to {end:,} must be escaped or is not UTF-8."
            )
            raise ProblemError("malformed-json", detail) from None
        at = end


def _cut(text: memoryview, begin: int, end: int) -> int:
    """The last place up to `end` where a piece may end: before a letter or an escape, outside of one."""
    if end == len(text):
        return end
    piece = bytes(text[begin:end])
    # A surrogate pair is two escapes of six signs each.
    escape = max(piece.rfind(b"\\", max(0, len(piece) - 12)), -1)
    if escape >= 0:
        first = escape
        while first > 0 and piece[first - 1 : first] == b"\\":
            first -= 1
        pair = piece.rfind(b"\\u", max(0, first - 6), first)
        cut = pair if pair >= 0 and pair == first - 6 else first
        return begin + (cut or escape + 1 - (escape + 1) % 2)
    cut = len(piece)
    while cut > 1 and piece[cut - 1] & 0xC0 == 0x80:  # noqa: PLR2004  # the further bytes of a letter in UTF-8
        cut -= 1
    return begin + (cut - 1 if piece[cut - 1] & 0x80 else cut)
