"""What is asked of what was learned and of how quotes fared, and answered about them."""

from marshmallow import fields

from service.api.schemas.answer_parts import AnswerSchema, flag, number, rows, text, whole
from service.api.schemas.catalog import PageQuery, one_of, yes_or_no
from service.api.schemas.fields import Choice, ListOf, Moment
from service.domain.calibration import LADDERS, Quantity, rung_name

_RUNGS = sorted({rung_name(rung) for ladder in LADDERS.values() for rung in ladder})


class CalibrationsQuery(PageQuery):
    """What the list of learned values is asked with."""

    quantity = ListOf(Choice([*Quantity]), metadata={"description": "What was learned. Several values with commas."})
    gpu = one_of("The GPU, by any of its names.", "h100-sxm-80gb")
    engine = one_of("The engine.", "vllm")
    rung = ListOf(Choice(_RUNGS), metadata={"description": "The rung of the ladder. Several values with commas."})
    usable = yes_or_no("Whether quotes use it.")
    history = yes_or_no("Whether to list what was known before, too. Default false.")
    as_of = Moment(metadata={"description": "What was known then. Default: now."})


class AccuracyQuery(PageQuery):
    """What the list of groups is asked with."""

    family = one_of("The family of the model: its published model_type.", "llama")
    gpu = one_of("The GPU, by any of its names.", "h100-sxm-80gb")
    engine = one_of("The engine.", "vllm")
    engine_version = one_of("The engine's release.", "0.19.0")


def _signed(about: str, *, null: bool = False) -> fields.Float:
    return fields.Float(required=True, allow_none=null, metadata={"description": about})


def _moment(about: str, *, null: bool = False) -> fields.String:
    return fields.String(required=True, allow_none=null, metadata={"description": about, "format": "date-time"})


class CalibrationRow(AnswerSchema):
    """What one rung knows of one quantity, beyond what the catalog alone says."""

    quantity = text("What was learned.")
    unit = text("What estimate, low, high and errors are in: bytes on a GPU, or shares of what the catalog says.")
    rung = text("What its measurements have in common.")
    gpu = text("null where rows of several GPUs stand behind it.", null=True)
    architecture = text("The GPUs' vendor and architecture, on rungs of those.", null=True)
    driver = text("null where it does not matter.", null=True)
    engine = text("null where it does not matter.", null=True)
    engine_version = text("null where it does not matter.", null=True)
    layout = text("Tensor and pipeline parallelism, such as tp2; null where it does not matter.", null=True)
    model_class = text("dense, or what is not dense about the models; null where it does not matter.", null=True)
    dtype = text("The type that was multiplied; null where it does not matter.", null=True)
    ranks = text("Ranks of an all-reduce; null where it does not matter.", null=True)
    batch = text(
        "Of a step its sequences, as 8-63; of an engine's start the tokens and sequences of the batches that it is "
        "started for, as 8192x1024, or any where the engine derives them. Null where it does not matter.",
        null=True,
    )
    estimate = _signed("Beyond the catalog: the median over probes, drawn toward the rung above.")
    low = _signed("Beyond the catalog: of others under these circumstances nineteen of twenty are expected above.")
    high = _signed("Beyond the catalog: of others under these circumstances nineteen of twenty are expected below.")
    measured = _signed("The median as it was measured: bytes, bytes a second, seconds, or a share of the listed rate.")
    measurements = whole("How many stand behind it.")
    probes = whole("From how many probes.")
    outliers = whole("Probes that were set aside.")
    seen = fields.Dict(
        keys=fields.String(),
        values=fields.List(fields.String()),
        required=True,
        metadata={"description": "By name, circumstances that were measured: a few of many."},
    )
    error_before = number("Of what was left out in turn: by the catalog alone. null where nothing was.", null=True)
    error_after = number("The same, foretold by what the others taught.", null=True)
    usable = flag("Whether quotes use it.")
    refusal = text("Why not; null where they do.", null=True)
    newest_at = _moment("When the newest of it was measured.")
    revision = whole("The calibration that brought it.", least=1)
    known_from = _moment("When that was.")
    known_until = _moment("When another took its place; null while it stands.", null=True)


class CalibrationsPage(AnswerSchema):
    """A page of learned values."""

    items = rows(CalibrationRow(), "In the order of quantity and circumstances.")
    next_cursor = text("Ask for the next page with it; null on the last one.", null=True)
    calibration_revision = whole("The calibration that the page was read from.")


class AccuracyRow(AnswerSchema):
    """How quotes of one group fared, over its newest measurements. Errors are shares of the measured figure."""

    family = text("The models' published model_type.")
    gpu = text("Slug.")
    engine = text("The engine.")
    engine_version = text("Its release; none for engine none.")
    figure = text("kv_capacity_tokens, kv_cache_bytes or passed_sequences.")
    measurements = whole("Compared with quotes: the newest 200 at most.", least=1)
    probes = whole("From how many probes.", least=1)
    median_error = _signed("Of quotes from the catalog alone; positive where they promised too much.")
    typical_error = number("The median size of those errors.")
    large_error = number("Nine of ten are smaller.")
    learned = whole("How many were also quoted with what had been learned before they came.")
    learned_typical_error = number("The median size of their errors; null where there are none.", null=True)
    within_five_percent = number("The share of measurements whose quote from the catalog alone is that close.")
    inside_interval = number("The share that lies in the interval that was quoted.")
    recent_median_error = _signed("Of the newest 20, with what had been learned where something had.")
    drifting = flag("Whether that left the band that quotes promise.")
    newest_at = _moment("When the newest arrived.")


class AccuracyPage(AnswerSchema):
    """A page of groups."""

    items = rows(AccuracyRow(), "In the order of their names.")
    next_cursor = text("Ask for the next page with it; null on the last one.", null=True)


CALIBRATIONS_QUERY = CalibrationsQuery.for_query()
ACCURACY_QUERY = AccuracyQuery.for_query()
CALIBRATIONS_PAGE = CalibrationsPage()
ACCURACY_PAGE = AccuracyPage()
CALIBRATION_COLUMNS = tuple(CalibrationRow().fields)
ACCURACY_COLUMNS = tuple(AccuracyRow().fields)
