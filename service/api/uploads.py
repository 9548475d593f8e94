"""Reading an upload: JSON or newline-delimited JSON, plain or gzip, and never more than the limits once unpacked."""

from collections.abc import Iterator
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from werkzeug.http import parse_options_header

from service.api import limits
from service.api.bodies import JSON_TYPE, read_bytes
from service.api.packed import unpacked
from service.api.problems import ProblemError
from service.api.quick_json import parse_quickly
from service.api.schemas.closed import ClosedSchema
from service.api.schemas.fields import AskedField, Moment
from service.api.services import services
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

NDJSON_TYPES: Final = frozenset({"application/x-ndjson", "application/ndjson", "application/jsonl"})
# What a thousand rows have at most, configs included; empty lists by the million would take 26 times their text.
_MOST_BRACKETS: Final = 200 * limits.UPLOAD_ROWS
_LARGE_BYTES: Final = 1 << 20
# Parsed, a body takes several times its size: large ones take turns, so that those of all threads do not add up.
_large = Lock()


class BrokenLine(NamedTuple):
    """A line that is not JSON, in the place of its row."""

    detail: str


class UploadBody(NamedTuple):
    """What came: rows as parsed, a BrokenLine where a line was not JSON; its size unpacked; when it was sent."""

    rows: list[Any]
    size: int
    sent_at: str | None


class Rows(AskedField):
    """The rows, read one by one later."""

    def read(self, value: object) -> list[object]:
        """Refuses what is no list, and an empty one."""
        if type(value) is not list or not value:
            raise ValidationError(Fault("/items", f"items must be a list of 1 to {limits.UPLOAD_ROWS:,} rows."))
        return value


class Envelope(ClosedSchema):
    """What stands around the rows in JSON."""

    sent_at = Moment(metadata={"description": "When it was sent, by the clock that measured."})
    items = Rows()


ENVELOPE = Envelope()


def read_upload(environ: "WSGIEnvironment") -> UploadBody:
    """The rows of the request, at least one and at most the limit.

    Raises ProblemError where the body breaks a rule or a limit, and ValidationError where its envelope is not one.
    """
    by_lines = _is_by_lines(environ)
    body = unpacked(environ, read_bytes(environ, limits.UPLOAD_BYTES), limits.UPLOAD_BYTES)
    if len(body) <= _LARGE_BYTES:
        return _read(body, by_lines=by_lines)
    with _large:
        return _read(body, by_lines=by_lines)


def _read(body: bytes, *, by_lines: bool) -> UploadBody:
    if body.count(b"[") + body.count(b"{") > _MOST_BRACKETS:
        raise ProblemError("too-large", f"An upload holds at most {_MOST_BRACKETS:,} objects and lists.")
    rows, sent_at = _lines(body) if by_lines else _enveloped(body)
    if len(rows) > limits.UPLOAD_ROWS:
        raise ProblemError("too-large", f"An upload has at most {limits.UPLOAD_ROWS:,} rows; nothing was stored.")
    return UploadBody(rows, len(body), sent_at)


def _enveloped(body: bytes) -> tuple[list[Any], str | None]:
    value = parse_quickly(body, services().settings.max_json_depth)
    if type(value) is not dict:
        raise ValidationError(Fault("", 'The body must be a JSON object: {"sent_at": …, "items": [row, …]}.'))
    if value.get("items") is None:
        # Before its names are looked at: a row alone has none of an envelope's.
        detail = "items is required: a list of rows, also of one; rows one a line are application/x-ndjson."
        raise ValidationError(Fault("/items", detail))
    asked = ENVELOPE.read(value)
    return asked["items"], asked.get("sent_at")


def _lines(body: bytes) -> tuple[list[Any], None]:
    lines = [(number, line) for number, line in enumerate(body.split(b"\n"), 1) if line.strip()]
    if not lines:
        raise ValidationError(Fault("", "The body holds no row."))
    if len(lines) > limits.UPLOAD_ROWS:
        return lines, None
    return list(_parsed(lines)), None


def _parsed(lines: list[tuple[int, bytes]]) -> Iterator[Any]:
    depth = services().settings.max_json_depth
    for number, line in lines:
        try:
            yield parse_quickly(line, depth, number)
        except ProblemError as error:
            # One broken line is one broken row.
            named = error.detail.startswith(f"Line {number},")
            yield BrokenLine(error.detail if named else f"Line {number}: {error.detail}")


def _is_by_lines(environ: "WSGIEnvironment") -> bool:
    kind, options = parse_options_header(environ.get("CONTENT_TYPE", ""))
    kind = kind.lower()
    if kind != JSON_TYPE and kind not in NDJSON_TYPES:
        named = f"not {kind[: limits.POINTER_CHARACTERS]}" if kind else "and Content-Type says nothing"
        raise ProblemError("unsupported-media-type", f"An upload is {JSON_TYPE} or application/x-ndjson, {named}.")
    if options.get("charset", "utf-8").lower() not in {"utf-8", "utf8"}:
        raise ProblemError("unsupported-media-type", "The body must be in UTF-8.")
    return kind in NDJSON_TYPES
