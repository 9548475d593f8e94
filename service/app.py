"""The application: the one place where settings, database, catalog and web are wired together."""

from typing import TYPE_CHECKING

from flask import Flask, request

from service.api import (
    auth,
    calibrations,
    dtypes,
    engines,
    fit,
    gpus,
    health,
    instances,
    logs,
    measurements,
    metrics,
    models,
    openapi,
    problem_pages,
    problems,
    traffic,
)
from service.api.problems import ProblemError
from service.api.services import Keeper, Services
from service.settings import Settings
from service.storage.database import make_engine, make_sessions
from service.storage.past import PastCatalogs
from service.storage.snapshot import SnapshotKeeper
from service.storage.token_cache import TokenCache
from service.telemetry import logs as telemetry_logs
from service.telemetry.observing import Observed
from service.web.views import web

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

RESOURCES = (
    fit.fit,
    traffic.traffic,
    models.models,
    gpus.gpus,
    instances.instances,
    dtypes.dtypes,
    engines.engines,
    logs.logs,
    measurements.measurements,
    calibrations.calibrations,
    health.health,
    metrics.metrics,
    problem_pages.problem_pages,
)
CORS_EXPOSED = ("ETag", "Link", "Location", "Retry-After", "WWW-Authenticate", "X-Request-ID")
CORS_ALLOWED = ("Authorization", "Content-Type", "If-Match", "If-None-Match", "X-Request-ID")


def create_app(settings: Settings, keeper: Keeper | None = None) -> Flask:
    """Wire an application together; nothing is connected to before the first request, or before its server forks.

    `keeper` takes the place of the catalog in the database. Raises DatabaseUrlError.
    """
    app = Flask("service", static_folder=None)
    # A path is taken as it stands: `//host` must not become a redirect.
    app.url_map.merge_slashes = False
    app.config["MAX_CONTENT_LENGTH"] = settings.max_body_bytes
    engine = make_engine(settings.database_url, settings.database_timeout_seconds)
    sessions = make_sessions(engine)
    keeper = keeper or SnapshotKeeper(sessions, settings.catalog_refresh_seconds)
    tokens = TokenCache(sessions, settings.token_cache_seconds)
    Services(settings, engine, sessions, keeper, PastCatalogs(sessions, keeper), tokens).install(app)
    app.before_request(_require_host)
    if not settings.open_reads:
        auth.close_reads(app)
    problems.register(app)
    for resource in (*RESOURCES, openapi.described_by(RESOURCES), web):
        app.register_blueprint(resource)
    if settings.cors_origins:
        _allow_origins(app, settings.cors_origins)
    app.wsgi_app = Observed(app.wsgi_app, _route_of, telemetry_logs.access_log(settings))  # type: ignore[method-assign]
    return app


def _require_host() -> None:
    """Gunicorn lets HTTP/1.1 requests without a Host through."""
    environ = request.environ
    if "HTTP_HOST" not in environ and environ.get("SERVER_PROTOCOL") == "HTTP/1.1":
        raise ProblemError("malformed-request", "An HTTP/1.1 request needs a Host header.")


def _route_of(environ: "WSGIEnvironment") -> str | None:
    rule = environ["werkzeug.request"].url_rule
    return rule.rule if rule is not None else None


def _allow_origins(app: Flask, origins: tuple[str, ...]) -> None:
    # Looked at after every request, so it is not there at all unless an origin was allowed.
    from flask_cors import CORS  # noqa: PLC0415

    CORS(app, origins=list(origins), expose_headers=CORS_EXPOSED, allow_headers=CORS_ALLOWED, max_age=600)
