"""What is asked of measurements and answered about them; rows themselves are read in `measurement_rows`."""

from marshmallow import fields

from service.api import limits
from service.api.schemas.answer_parts import AnswerSchema, flag, number, rows, text, whole
from service.api.schemas.catalog import PageQuery, one_of
from service.api.schemas.closed import Asked
from service.api.schemas.fields import Choice, ListOf, Moment
from service.api.schemas.measurement_fields import Uuid
from service.domain.errors import Fault
from service.domain.measurement import STORED


class MeasurementsQuery(PageQuery):
    """What the list of measurements is asked with."""

    kind = one_of("The kind of measurement.", "memory_bandwidth")
    gpu = one_of("Any name of the GPU, or a name that no GPU has yet.", "h100-sxm-80gb")
    model = one_of("Any name of the model, or a name that no model has yet.", "llama-2-7b")
    engine = one_of("The engine that ran.", "vllm")
    verdict = ListOf(
        Choice([*STORED]), metadata={"description": "What the rows are taken for now. Several values with commas."}
    )
    probe_id = Uuid(metadata={"description": "Who measured."})
    since = Moment(metadata={"description": "Measured at that time or later."})
    until = Moment(metadata={"description": "Measured before that time."})

    def contradictions(self, asked: Asked) -> list[Fault]:
        """A span that holds nothing is a mistake, and not an empty list."""
        if "since" in asked and "until" in asked and asked["since"] >= asked["until"]:
            return [Fault("/since", "since is not before until.")]
        return []


class ProbesQuery(PageQuery):
    """What the list of probes is asked with."""


def _moment(about: str, *, null: bool = False) -> fields.String:
    return fields.String(required=True, allow_none=null, metadata={"description": about, "format": "date-time"})


def _open(about: str, *, null: bool = True) -> fields.Dict:
    return fields.Dict(required=True, allow_none=null, metadata={"description": about})


class RowFault(AnswerSchema):
    """One thing that is wrong with a row."""

    pointer = text("JSON pointer into the row.")
    detail = text("What was expected.")


class RowResult(AnswerSchema):
    """What became of one row."""

    id = text("The row's id; null where it cannot be read.", null=True)
    verdict = text("accepted, duplicate, conflict, unmatched, quarantined or rejected.")
    detail = text("The reason of a verdict that is not plain; null after the first rows that have one.", null=True)
    errors = rows(RowFault(), f"Of a rejected row, for the first {limits.BAD_ROWS_LISTED} of them.")


class UploadResult(AnswerSchema):
    """What became of an upload, once it is on the disk."""

    items = rows(RowResult(), "One for each row, in the order sent.")
    counts = fields.Dict(
        keys=fields.String(),
        values=fields.Integer(strict=True),
        required=True,
        metadata={"description": "Rows by verdict; verdicts without rows are 0."},
    )


class MeasurementRow(AnswerSchema):
    """A stored measurement, as it was sent but for its normal form, and what it is taken for now."""

    id = text("Chosen by the probe.")
    probe_id = text("Who measured.")
    kind = text("What was measured.")
    measured_at = _moment("When, by the probe's clock.")
    received_at = _moment("When it arrived.")
    clock_skew_seconds = fields.Float(
        required=True,
        allow_none=True,
        metadata={"description": "By how much the probe's clock was ahead when it sent; null where it did not say."},
    )
    verdict = text("accepted, unmatched or quarantined, by the catalog of now.")
    detail = text("The reason; null for a row that is plainly accepted.", null=True)
    gpu_id = text("The catalog's id of the GPU; null where it has none.", null=True)
    model_id = text("The catalog's id of the model; null where it has none.", null=True)
    gpu = _open("As sent.")
    software = _open("As sent.")
    setup = _open("As sent.")
    values = _open("As sent.", null=False)
    samples = fields.List(fields.Float(), required=True, allow_none=True, metadata={"description": "As sent."})


class _Page(AnswerSchema):
    """A page of a list."""

    next_cursor = text("Ask for the next page with it; null on the last one.", null=True)


class MeasurementsPage(_Page):
    """A page of measurements."""

    items = rows(MeasurementRow(), "The newest measured first.")
    catalog_revision = whole("The catalog that they were judged by.")


class ProbeRow(AnswerSchema):
    """Who reported, when, and how much of it could be used."""

    probe_id = text("A random UUID that says nothing about the machine.")
    first_received_at = _moment("When its first row arrived.")
    last_received_at = _moment("When its newest row arrived.")
    last_measured_at = _moment("When its newest row was measured, no later than it arrived.")
    measurements = whole("Rows that are stored.")
    accepted = whole("Of them accepted.")
    unmatched = whole("Of them unmatched.")
    quarantined = whole("Of them quarantined.")
    accepted_share = number("accepted / measurements.", null=True)
    distrusted = flag("Whether the operator has set its rows aside, whatever they say.")
    distrusted_since = _moment("Its rows that arrived before then still count; null where none do.", null=True)
    distrust_reason = text("In the operator's words.", null=True)


class ProbesPage(_Page):
    """A page of probes."""

    items = rows(ProbeRow(), "In the order of their ids.")


MEASUREMENTS_QUERY = MeasurementsQuery.for_query()
PROBES_QUERY = ProbesQuery.for_query()
UPLOAD_RESULT = UploadResult()
ROW_RESULT = RowResult()
MEASUREMENT = MeasurementRow()
MEASUREMENTS_PAGE = MeasurementsPage()
PROBES_PAGE = ProbesPage()
MEASUREMENT_COLUMNS = tuple(MEASUREMENT.fields)
PROBE_COLUMNS = tuple(ProbeRow().fields)
