"""What goes wrong, as it is answered and as it is explained."""

from marshmallow import fields

from service.api.schemas.answer_parts import AnswerSchema, rows, text, whole


class ProblemFault(AnswerSchema):
    """One thing wrong."""

    pointer = text("JSON pointer into the question; empty for all of it.")
    detail = text("What is wrong, in a sentence.")
    nearest = fields.List(
        fields.String(), required=True, metadata={"description": "Known names that were perhaps meant, best first."}
    )


class Problem(AnswerSchema):
    """A problem (RFC 9457)."""

    type = text("A relative URI that names the kind for good; GET it for what it means and the way out.")
    title = text("The kind, in words.")
    status = whole("The HTTP status.", least=400)
    detail = text("What is wrong here, in a sentence.")
    request_id = text("Names this request in the service's log.", null=True)
    errors = rows(ProblemFault(), "Every fault of the question, at most fifty.")


class ProblemKind(AnswerSchema):
    """What a kind of problem means."""

    type = text("The relative URI that problems of this kind carry.")
    title = text("The kind, in words.")
    status = whole("The HTTP status it is answered with.", least=400)
    meaning = text("What it says about the request.")
    way_out = text("What to do about it.")


PROBLEM = Problem()
PROBLEM_KIND = ProblemKind()
