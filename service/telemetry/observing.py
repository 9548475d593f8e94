"""The outermost layer of the service: names, times, counts and logs each request, and sets the constant headers.

A WSGI wrapper and not Flask hooks: it sees what Flask itself fails at, and the constant headers cost one list
extension here against a checked insertion each there.
"""

from collections.abc import Callable, Iterable
from time import perf_counter
from typing import TYPE_CHECKING

from service.telemetry import metrics, request_ids
from service.telemetry.logs import AccessLog

if TYPE_CHECKING:
    from _typeshed import OptExcInfo
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    Headers = list[tuple[str, str]]
    Written = Callable[[bytes], object]

# Safe for JSON and for pages of our own scripts and styles alike, so every answer carries the same ones.
CONSTANT_HEADERS = (
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
    ("Referrer-Policy", "no-referrer"),
    ("Content-Security-Policy", "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'"),
)
# Asked every few seconds by every orchestrator: counted, not logged.
UNLOGGED_ROUTES = frozenset({"/livez", "/readyz"})
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class Observed:
    """`application`, observed. `route_of` returns the route template that matched, or None."""

    def __init__(
        self,
        application: "WSGIApplication",
        route_of: "Callable[[WSGIEnvironment], str | None]",
        access_log: AccessLog | None,
    ) -> None:
        self._application = application
        self._route_of = route_of
        self._access_log = access_log

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request."""
        started = perf_counter()
        request_id = request_ids.assign(environ)
        status, route = "500", "unmatched"

        def start(line: str, headers: "Headers", exc_info: "OptExcInfo | None" = None) -> "Written":
            nonlocal status, route
            # Asked here because Flask lets go of the matched route once the response has begun.
            status, route = line[:3], self._route_of(environ) or route
            headers.append((request_ids.HEADER, request_id))
            headers.extend(CONSTANT_HEADERS)
            return start_response(line, headers, exc_info)

        try:
            return self._application(environ, start)
        finally:
            self._record(environ, route, status, perf_counter() - started)

    def _record(self, environ: "WSGIEnvironment", route: str, status: str, seconds: float) -> None:
        # Any word may stand where the method stands: it must not become a label as it came.
        method = environ["REQUEST_METHOD"] if environ["REQUEST_METHOD"] in METHODS else "other"
        metrics.observe(method, route, status, seconds)
        if self._access_log is not None and route not in UNLOGGED_ROUTES:
            event = {
                "request_id": environ[request_ids.ENVIRON_KEY],
                "method": method,
                "route": route,
                "status": int(status),
                "duration_seconds": round(seconds, 6),
            }
            trace_id = request_ids.trace_id(environ)
            if trace_id is not None:
                event["trace_id"] = trace_id
            self._access_log(event)
