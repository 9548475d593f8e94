"""What can go wrong between a program and the service.

KvquoteError
├── InvalidInput        cannot be sent at all: an address without http, a number that JSON does not know
├── Unreachable         no whole answer came, whatever was tried
├── BadAnswer           something answered, but not a kvquote service
└── Refused             the service answered with a problem
    ├── NotAllowed      401, 403: the token
    ├── NotFound        404, 410
    ├── Conflict        409, 412, 428: somebody else was faster
    └── Unavailable     429 and 5xx: later may do; `retry_after_seconds` says when
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


class KvquoteError(Exception):
    """Whatever this package raises."""


class InvalidInput(KvquoteError, ValueError):
    """What was given cannot be sent; nothing was."""


class Unreachable(KvquoteError):
    """No whole answer came: no such host, refused, timed out, cut off.

    `not_begun`: the service cannot have seen the request. `may_pass`: the same request may do later.
    """

    not_begun = False
    may_pass = True


class BadAnswer(KvquoteError):
    """What answered did not answer as a kvquote service does: a proxy's page, half a document, another service."""


class Refused(KvquoteError):
    """The service answered with a problem document (RFC 9457).

    `problem` is the document as it came, {} where the refusal had none; `status` is HTTP's. `errors` are its faults,
    each with `pointer`, `detail` and `nearest`. `retry_after_seconds` is what the service asked to wait, if it did.
    """

    def __init__(self, status: int, problem: Mapping[str, Any], *, request_id: str | None, url: str) -> None:
        self.status = status
        self.problem = problem
        self.request_id = request_id
        self.url = url
        self.retry_after_seconds: float | None = None
        super().__init__(status, problem, request_id, url)

    @property
    def title(self) -> str:
        """The kind of problem in a few words."""
        return _text(self.problem.get("title")) or f"HTTP {self.status}"

    @property
    def detail(self) -> str:
        """What was wrong this time, in a sentence; may be empty."""
        return _text(self.problem.get("detail"))

    @property
    def errors(self) -> list[Mapping[str, Any]]:
        """The faults one by one; a document shaped otherwise has none."""
        faults = self.problem.get("errors")
        return [fault for fault in faults if isinstance(fault, dict)] if isinstance(faults, list) else []

    def __str__(self) -> str:
        words = [f"{self.status} {self.title}" if self.problem else self.title]
        # The detail is the first fault's, with a count of the others.
        words += [_fault(fault) for fault in self.errors] or ([self.detail] if self.detail else [])
        words += [f"request {self.request_id}"] if self.request_id else []
        return "; ".join(words)


class NotAllowed(Refused):
    """401 or 403: no token, a token that does not hold any more, or one without the scope."""


class NotFound(Refused):
    """404 or 410: nothing answers to that name."""


class Conflict(Refused):
    """409, 412 or 428: what is stored is not what the writer thought."""


class Unavailable(Refused):
    """429 or 5xx, after the tries that were allowed; `retry_after_seconds` is what the service asked for, if it did."""


def refusal(status: int, problem: Mapping[str, Any], *, request_id: str | None, url: str) -> Refused:
    """The error for a status of 400 or more."""
    kinds = {
        401: NotAllowed,
        403: NotAllowed,
        404: NotFound,
        409: Conflict,
        410: NotFound,
        412: Conflict,
        428: Conflict,
    }
    kind = kinds.get(status, Unavailable if status == _TOO_MANY or status >= _SERVER else Refused)
    return kind(status, problem, request_id=request_id, url=url)


_TOO_MANY = 429
_SERVER = 500


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _fault(fault: Mapping[str, Any]) -> str:
    nearest = fault.get("nearest")
    meant = f" (nearest: {', '.join(map(str, nearest))})" if isinstance(nearest, list) and nearest else ""
    return f"{_text(fault.get('pointer'))}: {_text(fault.get('detail'))}{meant}".removeprefix(": ")
