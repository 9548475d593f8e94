"""Closing a connection so that the refusal reaches a client that is still sending.

A server that closes with bytes unread resets the connection, and the reset overtakes the answer: the client sees a
broken pipe in place of 413. So the rest of the body is read and thrown away once the answer is out, within bounds.
"""

from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from flask import Response

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

MOST_SECONDS = 2.0
MOST_BYTES = 128 << 20
READ_BYTES = 1 << 16


def linger(response: Response, environ: "WSGIEnvironment") -> None:
    """Read the rest of the request's body after `response` was sent; only gunicorn hands over what that needs."""
    if "gunicorn.socket" in environ and _has_body(environ):
        response.call_on_close(lambda: _discard(environ))


def _has_body(environ: "WSGIEnvironment") -> bool:
    return environ.get("CONTENT_LENGTH", "0") not in {"", "0"} or "HTTP_TRANSFER_ENCODING" in environ


def _discard(environ: "WSGIEnvironment") -> None:
    connection, stream = environ["gunicorn.socket"], environ["wsgi.input"]
    until, patience, missing = monotonic() + MOST_SECONDS, connection.gettimeout(), MOST_BYTES
    # A broken body, a lost connection or a silent client: whatever it is, the answer is out and this ends. (A client
    # that sends a byte a second holds a thread longer, as it does with any body: that is for a proxy to stop.)
    with suppress(Exception):
        while missing > 0 and (left := until - monotonic()) > 0:
            connection.settimeout(left)
            part = stream.read(READ_BYTES)
            if not part:
                break
            missing -= len(part)
    with suppress(OSError):
        connection.settimeout(patience)
