"""`/logs`: what an engine's start-up log says, beside what would have been quoted."""

from typing import Any

from flask import Response, request

from service.answers import log_answer
from service.api import limits
from service.api.asking import check_accept, refuse_query
from service.api.log_bodies import LogBody, read_log
from service.api.queries import read_query
from service.api.replies import posted
from service.api.rest import Blueprint
from service.api.schemas.closed import Asked
from service.api.schemas.logs import LOG_ANSWER, LOG_BODY
from service.api.schemas.question import FIT_QUERY
from service.api.services import catalog_at, services
from service.domain.errors import Fault, ValidationError

logs = Blueprint("logs", __name__, description="What an engine's start-up log says, beside what would be quoted.")

_EXAMPLE = """\
(APIServer pid=1) INFO 11-02 04:20:32 [utils.py:233] non-default args: {'model': 'meta-llama/Llama-3.1-8B-Instruct', \
'max_model_len': 8192, 'gpu_memory_utilization': 0.95}
(EngineCore pid=75) INFO 11-02 04:20:48 [core.py:107] Initializing a V1 LLM engine (v0.19.0) with config: \
model='meta-llama/Llama-3.1-8B-Instruct', dtype=torch.bfloat16, max_seq_len=8192, tensor_parallel_size=1, \
pipeline_parallel_size=1, data_parallel_size=1, kv_cache_dtype=auto, seed=0
(EngineCore pid=75) INFO 11-02 04:21:01 [gpu_model_runner.py:4566] Model loading took 14.99 GiB memory and 3.12 seconds
(EngineCore pid=75) INFO 11-02 04:21:11 [gpu_worker.py:456] Available KV cache memory: 58.11 GiB
(EngineCore pid=75) INFO 11-02 04:21:11 [kv_cache_utils.py:1319] GPU KV cache size: 476,000 tokens
(EngineCore pid=75) INFO 11-02 04:21:11 [kv_cache_utils.py:1324] Maximum concurrency for 8,192 tokens per request: \
58.11x
"""

EXAMPLES: dict[str, dict[str, object]] = {
    "vLLM on an H100": {"value": {"log": _EXAMPLE, "gpu": "h100-sxm-80gb"}},
}
_TEXT = {"schema": {"type": "string", "maxLength": limits.LOG_BYTES}, "example": _EXAMPLE}
_LINES = {"schema": {"type": "string", "description": "Lines of a container's log, a JSON object each."}}


@logs.route("/logs", methods=["POST"])
@logs.answers(LOG_ANSWER, "What the log says.")
@logs.takes_body(LOG_BODY, EXAMPLES)
@logs.named(
    "postLog",
    summary="Read a start-up log",
    parameters=[{"in": "query", "schema": FIT_QUERY}],
    requestBody={"content": {"text/plain": _TEXT, "application/x-ndjson": _LINES}},
)
def post_log() -> Response:
    """As text, with names of a question for what the log does not say in the query, or as `log` in JSON beside them.

    Nothing is stored. Content-Encoding may be gzip. What cannot be told for certain is left out, and said.
    """
    from service.domain.logs import read_text  # noqa: PLC0415 - see its first lines

    check_accept(request.environ)
    body = read_log(request.environ, services().settings.max_json_depth)
    given = _given(body)
    reading = read_text(body.pieces)
    if reading.engine is None:
        raise ValidationError(Fault("/log", _nothing_found(reading.lines)))
    if given.get("engine", reading.engine) != reading.engine:
        raise ValidationError(Fault("/engine", f"The log is one of {reading.engine}, not of {given['engine']}."))
    return posted(log_answer(reading, given, catalog_at(given.get("as_of"))))


def _given(body: LogBody) -> Asked:
    """The names of a question beside the log."""
    if body.members is None:
        return FIT_QUERY.read_texts(read_query(request.environ))
    if request.environ.get("QUERY_STRING"):
        refuse_query(request.environ)
    asked: dict[str, Any] = LOG_BODY.read(body.members)
    return {name: value for name, value in asked.items() if name != "log"}


def _nothing_found(lines: int) -> str:
    from service.domain.logs import LOOKED_FOR  # noqa: PLC0415 - as above

    shown = "; ".join(f"{engine}: {', '.join(map(repr, texts[:4]))}" for engine, texts in LOOKED_FOR.items())
    return f"None of {lines:,} lines says memory, cache or settings of an engine's start. Looked for: {shown}, …"
