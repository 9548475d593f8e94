"""`/livez` and `/readyz`: is the process alive, and can it answer?"""

from threading import Thread

import structlog
from flask import Response
from sqlalchemy import Connection, Engine, text

from service.api.replies import NO_STORE, document, encode, failed_document
from service.api.rest import Blueprint
from service.api.schemas.health import LIVENESS, READINESS
from service.api.services import Services, services, snapshot
from service.domain.errors import CatalogUnavailable
from service.storage.migrations import serves

DATABASE_SECONDS = 1.0

health = Blueprint("health", __name__, description="Whether the service lives and can answer.")
log = structlog.get_logger(__name__)

Check = dict[str, str | None]


@health.route("/livez")
@health.answers(LIVENESS, "The process answers.")
@health.named("getLiveness", summary="Is the process alive?")
def livez() -> Response:
    """Touches nothing, so that a database that is away restarts no process."""
    return document(encode({"status": "alive"}) + "\n", cache=NO_STORE)


@health.route("/readyz")
@health.answers(READINESS, "Everything is there.")
@health.answers(READINESS, "Something is missing; each check says what.", 503)
@health.named("getReadiness", summary="Can the service answer?")
def readyz() -> Response:
    """Checks the database within a second, its schema and the catalog."""
    checks = [*_database_checks(services()), _catalog_check()]
    ready = all(check["status"] == "ok" for check in checks)
    told = encode({"status": "ready" if ready else "unready", "checks": checks}) + "\n"
    return document(told, cache=NO_STORE) if ready else failed_document(told, 503)


def _database_checks(having: Services) -> list[Check]:
    """Asked from a thread of its own: neither database has one timeout over connecting, waiting and answering."""
    found = _Found()
    thread = Thread(target=found.ask, args=(having.engine,), name="readiness", daemon=True)
    thread.start()
    thread.join(DATABASE_SECONDS)
    return [_check("database", found.database), _check("schema", found.schema)]


class _Found:
    """What the thread found until now; a failure until it found better."""

    def __init__(self) -> None:
        self.database: str | None = f"The database does not answer within {DATABASE_SECONDS:g} s."
        self.schema: str | None = "Not known without the database."

    def ask(self, engine: Engine) -> None:
        try:
            with engine.connect() as connection:
                connection.execute(text("SELECT 1"))
                self.database = None
                self.schema = _schema_fault(connection)
        except Exception as error:  # noqa: BLE001 - drivers raise many kinds, and each means "not ready"
            self.database = "The database cannot be reached."
            log.warning("readiness_failed", error=type(error).__name__)


def _schema_fault(connection: Connection) -> str | None:
    return None if serves(connection) else "The schema is older than this release: run kvquote-server db upgrade."


def _catalog_check() -> Check:
    try:
        empty = snapshot().revision == 0
    except CatalogUnavailable as error:
        return _check("catalog", error.detail)
    return _check("catalog", "The catalog is empty: run kvquote-server catalog load." if empty else None)


def _check(name: str, fault: str | None) -> Check:
    return {"name": name, "status": "failed" if fault else "ok", "detail": fault}
