"""`/metrics`: what Prometheus scrapes."""

from flask import Response, request
from sqlalchemy.exc import SQLAlchemyError

from service.api.replies import NO_STORE, document
from service.api.rest import Blueprint
from service.api.services import services
from service.domain.errors import CatalogUnavailable
from service.storage.database import reading
from service.storage.scores import by_engine
from service.telemetry.metrics import Fared, Standing, exposition

metrics = Blueprint("metrics", __name__, description="What Prometheus scrapes.")


@metrics.route("/metrics")
@metrics.answers({"type": "string"}, "All metrics.", content_type="text/plain")
@metrics.named("getMetrics", summary="Metrics for Prometheus")
def get_metrics() -> Response:
    """In the text format, or OpenMetrics where Accept asks for it."""
    content, content_type = exposition(request.headers.get("Accept", ""), _standing)
    return document(content.decode(), content_type, cache=NO_STORE)


def _standing() -> Standing:
    try:
        catalog = services().keeper.current()
    except CatalogUnavailable:
        return Standing()
    return Standing(catalog.revision, catalog.calibration.revision, _fared())


def _fared() -> list[Fared]:
    """Nothing where the database is away: a scrape says what it can."""
    try:
        with reading(services().engine) as connection:
            return [Fared(*one) for one in by_engine(connection)]
    except SQLAlchemyError:
        return []
