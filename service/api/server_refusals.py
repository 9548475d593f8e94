"""gunicorn's worker, whose own refusals are problem documents too. In a module of its own: only gunicorn loads it.

What breaks HTTP itself, or is too long to be read, never reaches the application: the server answers it, with a small
page of HTML where nothing else is said.
"""

import secrets
import socket
from contextlib import suppress
from ssl import SSLError
from typing import Any, NamedTuple

import structlog
from gunicorn.http import errors
from gunicorn.workers.gthread import ThreadWorker

from service.api.problem_documents import PROBLEM_TYPE, document
from service.api.problem_types import PROBLEM_TYPES
from service.telemetry import request_ids


class _Refusal(NamedTuple):
    status: int
    reason: str
    problem: str


_FAILED = _Refusal(500, "Internal Server Error", "internal-error")
_BROKEN = _Refusal(400, "Bad Request", "malformed-request")
# The first that an error is an instance of. What is wrong with a response is the service's fault, not the client's.
_REFUSALS: tuple[tuple[type[Exception], _Refusal], ...] = (
    (errors.InvalidResponseHeader, _FAILED),
    (errors.InvalidResponseHeaderName, _FAILED),
    (errors.ConfigurationProblem, _FAILED),
    (errors.LimitRequestLine, _Refusal(414, "URI Too Long", "uri-too-long")),
    (errors.LimitRequestHeaders, _Refusal(431, "Request Header Fields Too Large", "headers-too-large")),
    (errors.ExpectationFailed, _Refusal(417, "Expectation Failed", "http-error")),
    (errors.UnsupportedTransferCoding, _Refusal(501, "Not Implemented", "http-error")),
    (errors.ForbiddenProxyRequest, _Refusal(403, "Forbidden", "http-error")),
    (errors.ParseException, _BROKEN),
    (SSLError, _BROKEN),
    (Exception, _FAILED),
)
_DETAIL_CHARACTERS = 300
# A close with bytes unread resets the connection, and the reset overtakes the answer: the rest is read, within bounds.
_SILENCE_SECONDS = 0.2
_MOST_PARTS = 64
_PART_BYTES = 1 << 16

log = structlog.get_logger(__name__)


class Worker(ThreadWorker):  # type: ignore[misc]  # gunicorn ships no types
    """Serves with threads, as gunicorn's own; only what is refused before the application sees it is said otherwise."""

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:  # noqa: ANN401, ARG002
        """Answer a request that could not be read, log it and count it; gunicorn closes the connection."""
        refusal = next(refusal for kind, refusal in _REFUSALS if isinstance(exc, kind))
        request_id = secrets.token_hex(16)
        if refusal is _FAILED:
            log.error("request_failed", request_id=request_id, exc_info=exc)
        else:
            log.warning("request_refused", request_id=request_id, status=refusal.status, reason=type(exc).__name__)
        _count(refusal.status)
        # Whoever is gone already gets no answer, which gunicorn would not hold against the worker either.
        with suppress(OSError):
            client.settimeout(_SILENCE_SECONDS)
            client.sendall(_response(refusal, exc, request_id))
            _linger(client)


def _count(status: int) -> None:
    from service.telemetry import metrics  # noqa: PLC0415 - may not be imported before gunicorn.conf.py has run

    metrics.observe("other", "unmatched", str(status), 0.0)


def _response(refusal: _Refusal, exc: Exception, request_id: str) -> bytes:
    from service.telemetry.observing import CONSTANT_HEADERS  # noqa: PLC0415 - as above

    body = document(PROBLEM_TYPES[refusal.problem], _detail(refusal, exc), request_id, refusal.status).encode()
    headers = (
        ("Connection", "close"),
        ("Content-Type", PROBLEM_TYPE),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
        (request_ids.HEADER, request_id),
        *CONSTANT_HEADERS,
    )
    lines = (f"HTTP/1.1 {refusal.status} {refusal.reason}", *(f"{name}: {value}" for name, value in headers), "", "")
    return "\r\n".join(lines).encode("latin-1") + body


def _detail(refusal: _Refusal, exc: Exception) -> str:
    """What is wrong in the server's words; where the problem has a page of its own, in that page's."""
    kind = PROBLEM_TYPES[refusal.problem]
    own = str(exc)[:_DETAIL_CHARACTERS] if kind.name in {"http-error", "malformed-request"} else ""
    return own or f"{kind.meaning} {kind.way_out}"


def _linger(client: socket.socket) -> None:
    client.shutdown(socket.SHUT_WR)
    for _ in range(_MOST_PARTS):
        if not client.recv(_PART_BYTES):
            return
