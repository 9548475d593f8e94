"""`/problems/{name}`: what a kind of problem means, at the address that problems of the kind carry."""

from flask import Response

from service.api.problem_types import PROBLEM_TYPES
from service.api.problems import ProblemError
from service.api.replies import document, encode
from service.api.rest import Blueprint
from service.api.schemas.problem import PROBLEM_KIND
from service.domain.errors import Fault, nearest

problem_pages = Blueprint("problems", __name__, description="What the kinds of problem mean.")


NAME = {"in": "path", "name": "name", "schema": {"type": "string"}, "example": "validation-error"}


@problem_pages.route("/problems/<name>", parameters=[NAME])
@problem_pages.answers(PROBLEM_KIND, "The kind.", headers=("ETag",))
@problem_pages.named("getProblemKind", summary="What a kind of problem means")
def get_problem_kind(name: str) -> Response:
    """The last part of a problem's type."""
    kind = PROBLEM_TYPES.get(name)
    if kind is None:
        fault = Fault("", "No kind of problem has this name.", nearest(name, PROBLEM_TYPES))
        raise ProblemError("not-found", fault.detail, [fault])
    page = {
        "type": kind.uri,
        "title": kind.title,
        "status": kind.status,
        "meaning": kind.meaning,
        "way_out": kind.way_out,
    }
    return document(encode(page) + "\n")
