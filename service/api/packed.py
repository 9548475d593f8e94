"""Bodies that may be compressed with gzip, and never more of them than a limit once unpacked."""

import zlib
from typing import TYPE_CHECKING, Final

from service.api.problems import ProblemError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

_GZIP = frozenset({"gzip", "x-gzip"})
_AS_GZIP: Final = 16 + zlib.MAX_WBITS
_PIECE_BYTES: Final = 1 << 16
_MOST_MEMBERS: Final = 1000


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
    parts: list[bytes] = []
    place, left = 0, most_bytes + 1
    for _ in range(_MOST_MEMBERS):
        member = zlib.decompressobj(_AS_GZIP)
        while not member.eof:
            if place == len(body):
                raise ProblemError("malformed-request", "The gzip body ends before its end.")
            # Piece by piece: of each piece what follows a member is copied, and a body may be made of empty ones.
            piece = body[place : place + _PIECE_BYTES]
            parts.append(_inflated(member, piece, left))
            place, left = place + len(piece), left - len(parts[-1])
            if left <= 0:
                detail = f"The body may unpack to at most {most_bytes:,} bytes; nothing was stored."
                raise ProblemError("too-large", detail)
        place -= len(member.unused_data)
        if place == len(body):
            return b"".join(parts)
    raise ProblemError("too-large", f"A gzip body has at most {_MOST_MEMBERS:,} members; nothing was stored.")


def _inflated(member: "zlib._Decompress", piece: bytes, most_bytes: int) -> bytes:
    try:
        return member.decompress(piece, most_bytes)
    except zlib.error:
        raise ProblemError("unsupported-media-type", "The body is not the gzip that Content-Encoding says.") from None
