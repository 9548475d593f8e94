"""`/measurements` and `/probes`: rows of probes taken in, each with a verdict, and found again."""

from collections import Counter
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from flask import Response, request

from service.api import limits
from service.api.asking import check_accept
from service.api.auth import TOKEN_SECURITY, authorised
from service.api.bodies import JSON_TYPE, read_object
from service.api.listed import in_pages, listed
from service.api.measurement_intake import Outcome, take_in, tell, told
from service.api.measurement_pages import measurement_document, measurements_page, probes_page
from service.api.problems import ProblemError
from service.api.queries import read_query
from service.api.replies import NO_STORE, document, encode, written
from service.api.rest import Blueprint
from service.api.schemas.fields import MisreadError, escaped
from service.api.schemas.measurement_fields import Uuid
from service.api.schemas.measurement_rows import described_row
from service.api.schemas.measurements import (
    MEASUREMENT,
    MEASUREMENTS_PAGE,
    MEASUREMENTS_QUERY,
    PROBES_PAGE,
    PROBES_QUERY,
    ROW_RESULT,
    UPLOAD_RESULT,
)
from service.api.uploads import UploadBody, read_upload
from service.domain.errors import Fault, ValidationError
from service.domain.measurement import Verdict
from service.storage.tokens import Scope
from service.telemetry.metrics import count_measurements

_ROW = described_row()
_UPLOAD = {
    "type": "object",
    "properties": {
        "sent_at": {"type": ["string", "null"], "format": "date-time"},
        "items": {"type": "array", "items": _ROW, "minItems": 1, "maxItems": limits.UPLOAD_ROWS},
    },
    "required": ["items"],
    "additionalProperties": False,
}
_LINES = {"schema": {"type": "string", "description": "One row a line."}}
_read_uuid = Uuid().read

measurements = Blueprint(
    "measurements", __name__, description="What probes measured on real GPUs, and what it was taken for."
)


@measurements.route("/measurements", methods=["POST"])
@measurements.answers(UPLOAD_RESULT, "Each row has its verdict, and what is stored is on the disk.")
@measurements.named(
    "postMeasurements",
    summary="Upload measurements",
    requestBody={
        "required": True,
        "content": {JSON_TYPE: {"schema": _UPLOAD}, "application/x-ndjson": _LINES},
    },
    security=TOKEN_SECURITY,
)
def post_measurements() -> Response:
    """Safe to repeat. A row that is not valid does not hurt the others; Content-Encoding may be gzip."""
    token = authorised(Scope.MEASUREMENTS_WRITE)
    check_accept(request.environ)
    _refuse_query()
    outcomes = take_in(token, read_upload(request.environ))
    counts = _counted(outcomes)
    return _answer({"items": told(outcomes), "counts": counts})


@measurements.route("/measurements/<measurement_id>", methods=["PUT"])
@measurements.answers(ROW_RESULT, "The same row was stored before.")
@measurements.answers(ROW_RESULT, "The row is stored: accepted, unmatched or quarantined.", 201, headers=("Location",))
@measurements.named(
    "putMeasurement",
    summary="Upload one measurement",
    requestBody={"required": True, "content": {JSON_TYPE: {"schema": {**_ROW, "required": _ROW["required"][1:]}}}},  # type: ignore[index]
    security=TOKEN_SECURITY,
)
def put_measurement(measurement_id: str) -> Response:
    """Safe to repeat; another row with the same id is a conflict, and the first one stays."""
    token = authorised(Scope.MEASUREMENTS_WRITE)
    check_accept(request.environ)
    _refuse_query()
    body, size = _row(measurement_id)
    outcome = take_in(token, UploadBody([body], size, None))[0]
    _counted([outcome])
    if outcome.verdict is Verdict.CONFLICT:
        raise ProblemError("measurement-conflict", outcome.detail or "", [Fault("/id", outcome.detail or "")])
    if outcome.verdict is Verdict.REJECTED:
        raise ValidationError(*outcome.faults)
    if outcome.verdict is Verdict.DUPLICATE:
        return _answer(tell(outcome))
    return _answer(tell(outcome), 201, {"Location": f"/measurements/{outcome.id}"})


@measurements.route("/measurements")
@in_pages(measurements, MEASUREMENTS_PAGE)
@measurements.takes_query(MEASUREMENTS_QUERY)
@measurements.named("listMeasurements", summary="List measurements")
def list_measurements() -> Response:
    """The newest measured first, each with what it is taken for by the catalog of now."""
    return listed(MEASUREMENTS_QUERY.read_texts, measurements_page)


@measurements.route("/measurements/<measurement_id>")
@measurements.answers(MEASUREMENT, "The measurement.", headers=("ETag",))
@measurements.answers(None, "The client has it.", 304, headers=("ETag",))
@measurements.named("getMeasurement", summary="Read one measurement")
def get_measurement(measurement_id: str) -> Response:
    """With what it is taken for by the catalog of now."""
    check_accept(request.environ)
    _refuse_query()
    found = measurement_document(UUID(_path_id(measurement_id, 404)))
    if found is None:
        raise ProblemError("not-found", "No measurement has this id.")
    return document(encode(found) + "\n")


@measurements.route("/probes")
@in_pages(measurements, PROBES_PAGE)
@measurements.takes_query(PROBES_QUERY)
@measurements.named("listProbes", summary="List who reported")
def list_probes() -> Response:
    """When each probe last reported, and what share of its rows was accepted."""
    return listed(PROBES_QUERY.read_texts, probes_page)


def _row(measurement_id: str) -> tuple[dict[str, object], int]:
    """The row in the body, under the id in the path, and the body's size at most."""
    path_id = _path_id(measurement_id, 422)
    body = read_object(request.environ, limits.ROW_BYTES, _json_depth())
    given = body.setdefault("id", path_id)
    if not isinstance(given, str) or given.lower() != path_id:
        raise ValidationError(Fault("/id", "id is another one than that in the path."))
    return body, int(request.environ.get("CONTENT_LENGTH") or limits.ROW_BYTES)


def _path_id(text: str, status: int) -> str:
    try:
        return _read_uuid(text)
    except MisreadError as error:
        name = "not-found" if status == 404 else "validation-error"  # noqa: PLR2004 - what a path is refused with
        raise ProblemError(name, f"The id in the path {error.sentence}.", status=status) from None


def _json_depth() -> int:
    from service.api.services import services  # noqa: PLC0415

    return services().settings.max_json_depth


def _refuse_query() -> None:
    names = list(read_query(request.environ))
    if names:
        detail = "Nothing is asked by the query here."
        raise ValidationError(*(Fault(f"/{escaped(name[:64])}", detail) for name in names[:50]))


def _counted(outcomes: list[Outcome]) -> dict[str, int]:
    counts = Counter(outcome.verdict.value for outcome in outcomes)
    count_measurements(counts)
    return {verdict.value: counts[verdict.value] for verdict in Verdict}


def _answer(answer: Mapping[str, Any], status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    response = Response(written(answer), status, headers, content_type=JSON_TYPE)
    response.headers["Cache-Control"] = NO_STORE
    return response
