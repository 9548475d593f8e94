"""The application: the one place where settings, database, catalog and web are wired together."""

from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING

from flask import Blueprint, Flask, request

from service.api import auth, fit, health, problems, traffic
from service.api.problems import ProblemError
from service.api.services import Keeper, Services
from service.api.spared import ROUTE_KEY, spared
from service.settings import Settings
from service.storage.database import make_engine
from service.storage.past import PastCatalogs
from service.storage.snapshot import SnapshotKeeper
from service.storage.token_cache import TokenCache
from service.telemetry import logs as telemetry_logs
from service.telemetry.observing import Observed

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIEnvironment

FIRST = (fit.fit, traffic.traffic, health.health)
"""What a server answers as soon as it runs."""
CORS_EXPOSED = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate", "X-Request-ID")
CORS_ALLOWED = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-Request-ID")


def create_app(settings: Settings, keeper: Keeper | None = None) -> Flask:
    """Wire the whole application together; nothing is connected to before the first request.

    `keeper` takes the place of the catalog in the database. Raises DatabaseUrlError.
    """
    services = _services(settings, keeper)
    app = _whole(services)
    answer = spared(app.wsgi_app, services)
    app.wsgi_app = Observed(answer, _route_of, telemetry_logs.access_log(settings))  # type: ignore[method-assign]
    return app


class StagedApp:
    """The same application as a server runs it: it quotes at once, and loads what else there is when it is asked for.

    That takes about a tenth of a second. `load` does it ahead, or the first request for any of it. Nothing is connected
    to before the first request, or before its server forks.
    """

    def __init__(self, settings: Settings) -> None:
        """Wire what quotes need; raises DatabaseUrlError."""
        self.services = _services(settings, None)
        first = _application(self.services, FIRST)
        self._first = first.wsgi_app
        self._first_paths = frozenset(rule.rule for rule in first.url_map.iter_rules())
        self._rest: Flask | None = None
        self._loading = Lock()
        self._observed = Observed(spared(self._answer, self.services), _route_of, telemetry_logs.access_log(settings))

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        """Answer one request."""
        return self._observed(environ, start_response)

    def load(self) -> Flask:
        """Load the whole application, where that was not done."""
        with self._loading:
            self._rest = self._rest or _whole(self.services)
            return self._rest

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ.get("PATH_INFO") in self._first_paths:
            return self._first(environ, start_response)
        return (self._rest or self.load()).wsgi_app(environ, start_response)


def _services(settings: Settings, keeper: Keeper | None) -> Services:
    engine = make_engine(settings.database_url, settings.database_timeout_seconds)
    keeper = keeper or SnapshotKeeper(engine, settings.catalog_refresh_seconds)
    tokens = TokenCache(engine, settings.token_cache_seconds)
    return Services(settings, engine, keeper, PastCatalogs(engine, keeper), tokens)


def _whole(services: Services) -> Flask:
    from service.resources import PAGES  # noqa: PLC0415 - the point of a StagedApp

    return _application(services, PAGES)


def _application(services: Services, resources: Sequence[Blueprint]) -> Flask:
    settings = services.settings
    app = Flask("service", static_folder=None)
    # A path is taken as it stands: `//host` must not become a redirect.
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    services.install(app)
    app.before_request(_require_host)
    if not settings.open_reads:
        auth.close_reads(app)
    problems.register(app)
    for resource in resources:
        app.register_blueprint(resource)
    if settings.cors_origins:
        _allow_origins(app, settings.cors_origins)
    return app


def _require_host() -> None:
    """Gunicorn lets HTTP/1.1 requests without a Host through."""
    environ = request.environ
    if "HTTP_HOST" not in environ and environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
        raise ProblemError("malformed-request", "An HTTP/1.1 request needs a Host header.")


def _route_of(environ: "WSGIEnvironment") -> str | None:
    if ROUTE_KEY in environ:
        return str(environ[ROUTE_KEY])
    rule = environ["werkzeug.request"].url_rule
    return rule.rule if rule is not None else None


def _allow_origins(app: Flask, origins: tuple[str, ...]) -> None:
    # Looked at after every request, so it is not there at all unless an origin was allowed.
    from flask_cors import CORS  # noqa: PLC0415

    CORS(app, origins=list(origins), expose_headers=CORS_EXPOSED, allow_headers=CORS_ALLOWED, max_age=600)
