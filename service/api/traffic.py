"""`/traffic`: what one decode step reads, and how long it takes."""

from flask import Response
from marshmallow import Schema

from service.answers import traffic_answer
from service.api.replies import answered
from service.api.rest import Blueprint
from service.api.schemas.closed import Asked
from service.api.schemas.question import TRAFFIC_BODY, TRAFFIC_QUERY

traffic = Blueprint("traffic", __name__, description="What one decode step reads, and how long it takes.")

EXAMPLES: dict[str, dict[str, object]] = {
    "a step of 28 sequences": {
        "value": {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096, "batch_size": 28}
    },
    "a curve over batch sizes": {
        "value": {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "curve_batch_sizes": [1, 8, 28]}
    },
}


def _answer() -> Schema:
    # It documents what is answered, and nothing else: most processes are never asked for the document.
    from service.api.schemas.traffic import TRAFFIC_ANSWER  # noqa: PLC0415

    return TRAFFIC_ANSWER


@traffic.route("/traffic")
@traffic.asks_by_query(TRAFFIC_QUERY)
@traffic.answers(_answer, "The quote.", headers=("ETag",))
@traffic.answers(None, "The client has the present answer.", 304, headers=("ETag",))
@traffic.named("getTraffic", summary="Quote what a decode step reads")
def get_traffic(asked: Asked) -> Response:
    """Complete in its URL."""
    return answered(asked, traffic_answer)


@traffic.route("/traffic", methods=["POST"])
@traffic.asks_by_body(TRAFFIC_BODY, EXAMPLES)
@traffic.answers(_answer, "The quote.")
@traffic.named("postTraffic", summary="Quote what a decode step reads, asked in JSON")
def post_traffic(asked: Asked) -> Response:
    """The same question and answer; a config only goes here."""
    return answered(asked, traffic_answer)
