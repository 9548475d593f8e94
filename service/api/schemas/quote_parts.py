"""The parts that quotes share: what was asked, of which model and devices, and what measurements taught."""

from typing import Any

from marshmallow import fields

from service.api.schemas.answer_parts import AnswerSchema, bounds, number, part, rows, sentences, text, whole
from service.api.schemas.fields import AskedField, Properties
from service.api.schemas.question import TrafficQuestion


class EchoedField(AskedField):
    """A name of the question as the answer repeats it: of the same type or null, and of any size that was derived."""

    def __init__(self, asked: AskedField) -> None:
        super().__init__(required=True, metadata={"description": asked.metadata["description"]})
        self._asked = asked

    def described(self) -> Properties:
        """The type alone."""
        described = self._asked.echoed()
        echoed: Properties = {
            key: described[key] for key in ("type", "additionalProperties", "format") if key in described
        }
        if isinstance(described.get("items"), dict):
            echoed["items"] = {"type": described["items"]["type"]}  # type: ignore[index]  # a dict, as just seen
        return echoed


EchoedQuestion = AnswerSchema.from_dict(
    {name: EchoedField(field) for name, field in TrafficQuestion().fields.items() if isinstance(field, AskedField)},
    name="EchoedQuestion",
)


class AnsweredModel(AnswerSchema):
    """The model that the answer is about."""

    id = text("Slug; null for config.", null=True)
    name = text("As it is published.")
    parameters = number("Counted or asked, whole model.")
    active_parameters = number("Those that one token uses.", null=True)
    context_tokens = whole("The model's own longest context.", null=True)
    revision = whole("Catalog revision of the entry; null for config.", null=True)


class AnsweredGpu(AnswerSchema):
    """The GPUs that the answer is about."""

    id = text("Slug.")
    name = text("As its maker writes it.")
    count = whole("GPUs in the whole deployment.", least=1)
    revision = whole("Catalog revision of the entry.")


class ListedGpu(AnswerSchema):
    """One of the cards that a question lists."""

    id = text("Slug.")
    name = text("As its maker writes it.")
    revision = whole("Catalog revision of the entry.")


class AnsweredEngine(AnswerSchema):
    """The engine that the answer is about."""

    name = text("none is the arithmetic of a textbook.")
    version = text("null for engine none.", null=True)


class UnderstoodCommand(AnswerSchema):
    """What was understood of the command line."""

    engine = text("The engine that it starts.")
    program = text("The program that starts it.")
    ignored = fields.List(
        fields.String(),
        required=True,
        metadata={
            "description": "Flags and variables that do not change how much memory is taken, as they were spelt."
        },
    )
    set = fields.Dict(
        keys=fields.String(),
        required=True,
        metadata={"description": "Names of the question that it sets, with their values."},
    )


class LearnedPart(AnswerSchema):
    """One quantity that measurements taught."""

    quantity = text("visible_memory or reserve.")
    rung = text("The step of the ladder that was used, such as gpu+engine+version.")
    beyond_catalog_bytes = fields.Integer(
        strict=True, required=True, metadata={"description": "What is added to what the catalog alone says, on a GPU."}
    )
    spread_bytes = bounds(fields.Integer(strict=True), "Low and high, beyond what the catalog alone says.")
    measurements = whole("How many stood behind it.")
    probes = whole("From how many probes.")
    versions = sentences("Releases of the engine that were measured.")
    drivers = sentences("Drivers that were measured.")
    as_of = text("Time of the newest.")


class Calibration(AnswerSchema):
    """What measurements taught, where they were used."""

    rung = text("The step of the ladder that was used, such as gpu+engine+version.")
    measurements = whole("How many stood behind it.")
    probes = whole("From how many probes.")
    spread_bytes = bounds(fields.Integer(strict=True), "Low and high, beyond what the catalog alone says.")
    as_of = text("Time of the newest.", null=True)
    learned = rows(LearnedPart(), "Everything learned that the answer uses.")


def command() -> fields.Nested:
    """What the command was understood as, if there was one."""
    return part(UnderstoodCommand(), "What was understood of command; null where none was asked.", null=True)


def question() -> fields.Nested:
    """What was asked, completed."""
    return part(EchoedQuestion(), "Every name after defaults; null where it does not apply.")


def taken() -> fields.Dict:
    """Where each name of the question came from."""
    sources = "request, command, name, default, measured, calibrated, modelled, derived, catalog or recalled"
    return fields.Dict(
        keys=fields.String(),
        values=fields.String(),
        required=True,
        metadata={"description": f"Where each name came from: {sources}."},
    )


_GPU = "The GPUs, of several kinds the one that fills first; null where only memory was given."


def gpu() -> fields.Nested:
    """The GPUs, if any are known."""
    return part(AnsweredGpu(), _GPU, null=True)


def gpus() -> fields.List[Any]:
    """The cards, where the question lists them."""
    return rows(ListedGpu(), "Each card in the order of the question's gpus; null where it lists none.", null=True)
