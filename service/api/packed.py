"""Bodies that may be compressed with gzip, and never more of them than a limit once unpacked."""

import zlib
from typing import TYPE_CHECKING, Final

from service.api.problems import ProblemError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_GZIP = frozenset({"gzip", "x-gzip"})
_AS_GZIP: Final = 16 + zlib.MAX_WBITS


def unpacked(environ: "WSGIEnvironment", body: bytes, most_bytes: int) -> bytes:
    """The body as it was before Content-Encoding; raises ProblemError."""
    coding = environ.get("HTTP_CONTENT_ENCODING", "identity").strip().lower()
    if coding in {"", "identity"}:
        return body
    if coding not in _GZIP:
        raise ProblemError("unsupported-media-type", "The body may be compressed with gzip, and with nothing else.")
    return _gunzip(body, most_bytes)


def _gunzip(body: bytes, most_bytes: int) -> bytes:
    """What the members of a gzip file unpack to; one byte more than the limit is seen, never made."""
    parts, left = [], most_bytes + 1
    while True:
        member = zlib.decompressobj(_AS_GZIP)
        try:
            part = member.decompress(body, left)
        except zlib.error:
            raise ProblemError(
                "unsupported-media-type", "The body is not the gzip that Content-Encoding says."
            ) from None
        parts.append(part)
        left -= len(part)
        if left <= 0:
            raise ProblemError("too-large", f"The body may unpack to at most {most_bytes:,} bytes; nothing was stored.")
        if not member.eof:
            raise ProblemError("malformed-request", "The gzip body ends before its end.")
        body = member.unused_data
        if not body:
            return parts[0] if len(parts) == 1 else b"".join(parts)
