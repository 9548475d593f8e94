"""From a request to the question in it, by one schema for GET and POST alike."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from flask import request

from service.api import limits
from service.api.bodies import JSON_TYPE, read_object
from service.api.problems import ProblemError
from service.api.queries import read_query
from service.api.schemas.closed import Asked, ClosedSchema
from service.api.schemas.fields import escaped
from service.api.services import services
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIEnvironment

Reader = Callable[[], Asked]

# What nearly every client sends; anything else is parsed.
TAKES_JSON = frozenset({"", "*/*", JSON_TYPE, "application/json, text/plain, */*"})


def query_reader(schema: ClosedSchema) -> Reader:
    """Read the question of a GET."""

    def read() -> Asked:
        environ = request.environ
        check_accept(environ)
        return schema.read_texts(read_query(environ))

    return read


def body_reader(schema: ClosedSchema) -> Reader:
    """Read the question of a POST, which gives no query string besides."""

    def read() -> Asked:
        environ = request.environ
        check_accept(environ)
        if environ.get("QUERY_STRING"):
            refuse_query(environ)
        settings = services().settings
        return schema.read(read_object(environ, settings.max_body_bytes, settings.max_json_depth))

    return read


def refuse_query(environ: "WSGIEnvironment") -> None:
    """Raise ValidationError for every name of the query string, where a body holds the question."""
    names = [name[: limits.POINTER_CHARACTERS] for name in read_query(environ)][: limits.FAULTS_LISTED]
    # A query string may be nothing but separators.
    if names:
        faults = (Fault(f"/{escaped(name)}", f"{name} belongs into the body of a POST.") for name in names)
        raise ValidationError(*faults)


def check_accept(environ: "WSGIEnvironment") -> None:
    """Raise ProblemError (406) for a client that does not take JSON."""
    accept = environ.get("HTTP_ACCEPT", "")
    if accept not in TAKES_JSON and not request.accept_mimetypes.quality(JSON_TYPE):
        raise ProblemError("not-acceptable", f"Answers are {JSON_TYPE}.")
