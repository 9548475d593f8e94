"""One name per request: taken from `X-Request-ID` where it is safe to repeat, else made here.

It is echoed on every reply, stands in every problem and in every log line of the request.
"""

import re
import secrets
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

HEADER = "X-Request-ID"
ENVIRON_KEY = "kvquote.request_id"

# Nothing that could break a header, forge a log line or fill a disk.
_accepted = re.compile(r"[A-Za-z0-9._-]{1,64}").fullmatch
_trace = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}.*").fullmatch


def assign(environ: "WSGIEnvironment") -> str:
    """Name the request and leave the name in its environ."""
    given = environ.get("HTTP_X_REQUEST_ID")
    # 128 random bits, as a UUID has, at a third of uuid4()'s price.
    request_id: str = given if given and _accepted(given) else secrets.token_hex(16)
    environ[ENVIRON_KEY] = request_id
    return request_id


def trace_id(environ: "WSGIEnvironment") -> str | None:
    """The W3C trace this request belongs to, so that logs can be joined to traces without an SDK here."""
    given = environ.get("HTTP_TRACEPARENT")
    match = _trace(given) if given else None
    return match[1] if match else None
