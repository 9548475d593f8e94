"""`/fit`: how many sequences fit, and what takes the memory."""

from flask import Response
from marshmallow import Schema

from service.answers import fit_answer
from service.api.replies import answered
from service.api.rest import Blueprint
from service.api.schemas.closed import Asked
from service.api.schemas.question import FIT_BODY, FIT_QUERY

fit = Blueprint("fit", __name__, description="How many sequences fit, and what takes the memory.")

EXAMPLES: dict[str, dict[str, object]] = {
    "model on a GPU": {"value": {"model": "llama-2-7b", "gpu": "a100-sxm-80gb", "context_tokens": 4096}},
    "an engine's command line": {
        "value": {
            "command": "vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2 --max-model-len 8192",
            "gpu": "h100-sxm-80gb",
        }
    },
    "textbook numbers": {
        "value": {
            "model": "llama-2-7b",
            "parameters": 7.0e9,
            "weight_dtype": "fp16",
            "kv_dtype": "fp16",
            "context_tokens": 4096,
            "memory_bytes": 80_000_000_000,
            "reserve_bytes": 4_000_000_000,
        }
    },
}


def _answer() -> Schema:
    # It documents what is answered, and nothing else: most processes are never asked for the document.
    from service.api.schemas.fit import FIT_ANSWER  # noqa: PLC0415

    return FIT_ANSWER


@fit.route("/fit")
@fit.asks_by_query(FIT_QUERY)
@fit.answers(_answer, "The quote.", headers=("ETag",))
@fit.answers(None, "The client has the present answer.", 304, headers=("ETag",))
@fit.named("getFit", summary="Quote how many sequences fit")
def get_fit(asked: Asked) -> Response:
    """Complete in its URL."""
    return answered(asked, fit_answer)


@fit.route("/fit", methods=["POST"])
@fit.asks_by_body(FIT_BODY, EXAMPLES)
@fit.answers(_answer, "The quote.")
@fit.named("postFit", summary="Quote how many sequences fit, asked in JSON")
def post_fit(asked: Asked) -> Response:
    """The same question and answer; a config only goes here."""
    return answered(asked, fit_answer)
