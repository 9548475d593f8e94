"""Whether the process lives and whether it can answer."""

from service.api.schemas.answer_parts import AnswerSchema, rows, text


class Liveness(AnswerSchema):
    """The process answers."""

    status = text("alive.")


class Check(AnswerSchema):
    """One thing that the service needs."""

    name = text("database, schema or catalog.")
    status = text("ok or failed.")
    detail = text("What is missing, in a sentence.", null=True)


class Readiness(AnswerSchema):
    """Whether everything that the service needs is there."""

    status = text("ready or unready.")
    checks = rows(Check(), "Each thing that the service needs.")


LIVENESS = Liveness()
READINESS = Readiness()
