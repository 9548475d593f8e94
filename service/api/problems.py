"""The one place where errors become answers: application/problem+json (RFC 9457), whatever went wrong.

Members: type (a relative URI that GET explains), title, status, detail, request_id, errors.
"""

from collections.abc import Sequence

import structlog
from flask import Flask, Response, request
from sqlalchemy.exc import DisconnectionError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from werkzeug.exceptions import HTTPException
from werkzeug.routing import RequestRedirect

from service.api import limits
from service.api.lingering import linger
from service.api.problem_documents import PROBLEM_TYPE, document
from service.api.problem_types import PROBLEM_TYPES, ProblemType, for_status
from service.api.responses import CompleteResponse
from service.domain.errors import Fault, QuoteError
from service.telemetry import request_ids

RETRY_AFTER_SECONDS = 1
# The entity headers of werkzeug's own HTML page, which is not sent.
_REPLACED_HEADERS = frozenset({"content-type", "content-length"})

log = structlog.get_logger(__name__)

Headers = Sequence[tuple[str, str]]


class ProblemError(Exception):
    """What the HTTP side itself refuses; `name` is a key of PROBLEM_TYPES.

    `status` replaces the kind's own: what is 422 in a question is 404 in a path.
    """

    def __init__(
        self, name: str, detail: str, faults: Sequence[Fault] = (), *, headers: Headers = (), status: int = 0
    ) -> None:
        super().__init__(detail)
        self.kind = PROBLEM_TYPES[name]
        self.detail = detail
        self.faults = faults
        self.headers = headers
        self.status = status


def respond(
    kind: ProblemType, detail: str, faults: Sequence[Fault] = (), headers: Headers = (), status: int = 0
) -> Response:
    """One problem as a response. `status` replaces the kind's own where one kind stands for several."""
    status = status or kind.status
    body = document(kind, detail, request.environ.get(request_ids.ENVIRON_KEY), status, faults).encode()
    own = [("Content-Length", str(len(body))), ("Content-Type", PROBLEM_TYPE), ("Cache-Control", "no-store")]
    response = CompleteResponse([body], status, [*own, *headers])
    if status == 503:  # noqa: PLR2004 - Service Unavailable
        response.headers["Retry-After"] = str(RETRY_AFTER_SECONDS)
    linger(response, request.environ)
    return response


def register(app: Flask) -> None:
    """Answer every kind of error in `app` as a problem."""
    app.register_error_handler(ProblemError, _problem)
    app.register_error_handler(QuoteError, _refused)
    app.register_error_handler(HTTPException, _http)
    for away in (OperationalError, InterfaceError, DisconnectionError, PoolTimeoutError):
        app.register_error_handler(away, _database_away)
    app.register_error_handler(Exception, _failed)


def _problem(error: ProblemError) -> Response:
    return respond(error.kind, error.detail, error.faults, error.headers, error.status)


def _refused(error: QuoteError) -> Response:
    return respond(PROBLEM_TYPES[error.code], _summary(error.faults) or error.detail, error.faults)


def _http(error: HTTPException) -> HTTPException | Response:
    if isinstance(error, RequestRedirect) or error.code is None:
        return error
    # Allow, WWW-Authenticate and Retry-After are part of what such an error says.
    kept = [
        (name, value) for name, value in error.get_headers(request.environ) if name.lower() not in _REPLACED_HEADERS
    ]
    return respond(for_status(error.code), _http_detail(error), headers=kept, status=error.code)


def _http_detail(error: HTTPException) -> str:
    kind = for_status(error.code or 500)
    return f"{kind.meaning} {kind.way_out}" if kind.name != "http-error" else error.description or error.name


def _database_away(error: Exception) -> Response:
    log.warning("database_unavailable", error=type(error).__name__)
    kind = PROBLEM_TYPES["database-unavailable"]
    return respond(kind, kind.meaning)


def _failed(error: Exception) -> Response:
    # The text of the exception may hold anything, so it goes to the log and not to the client.
    log.error("request_failed", exc_info=error)
    kind = PROBLEM_TYPES["internal-error"]
    return respond(kind, kind.meaning)


def _summary(faults: Sequence[Fault]) -> str:
    if not faults:
        return ""
    more = f" ({len(faults) - 1} more under errors.)" if len(faults) > 1 else ""
    return faults[0].detail[: limits.DETAIL_CHARACTERS] + more
