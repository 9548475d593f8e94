"""`/metrics`: what Prometheus scrapes."""

from flask import Response, request

from service.api.replies import NO_STORE, document
from service.api.rest import Blueprint
from service.api.services import services
from service.domain.errors import CatalogUnavailable
from service.telemetry.metrics import exposition

metrics = Blueprint("metrics", __name__, description="What Prometheus scrapes.")


@metrics.route("/metrics")
@metrics.answers({"type": "string"}, "All metrics.", content_type="text/plain")
@metrics.named("getMetrics", summary="Metrics for Prometheus")
def get_metrics() -> Response:
    """In the text format, or OpenMetrics where Accept asks for it."""
    content, content_type = exposition(request.headers.get("Accept", ""), _revision)
    return document(content.decode(), content_type, cache=NO_STORE)


def _revision() -> int | None:
    try:
        return services().keeper.current().revision
    except CatalogUnavailable:
        return None
