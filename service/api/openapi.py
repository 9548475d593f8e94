"""The OpenAPI 3.1 document: built from what the views declare, once, when it is first asked for."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import flask
import flask_smorest
from apispec.ext.marshmallow.openapi import OpenAPIConverter
from flask import Response
from marshmallow import fields

from service import __version__
from service.api.problems import PROBLEM_TYPE
from service.api.replies import document
from service.api.rest import Blueprint
from service.api.schemas.fields import AskedField, ListOf, Properties
from service.api.schemas.problem import PROBLEM

OPENAPI_VERSION = "3.1.1"
DESCRIPTION = (
    "How many sequences of a language model fit a GPU, what takes the memory, and what one decode step reads. "
    "Within the life of these paths keys are only added to answers, never renamed or retyped: ignore keys you do not "
    "know. Unknown names in a question are refused. Every answer carries X-Request-ID, yours if you sent one."
)
# A question without one of each pair is refused; JSON Schema says so by what must be there.
_ALTERNATIVES = (("model", "config"), ("gpu", "memory_bytes"))
_QUESTIONS = ("FitQuestion", "TrafficQuestion")


def described_by(resources: Sequence[Blueprint]) -> flask.Blueprint:
    """The page that describes the resources."""
    page = flask.Blueprint("openapi", __name__)

    @page.get("/openapi.json")
    def openapi() -> Response:
        return document(_text(tuple(resources)))

    return page


def build(resources: Sequence[Blueprint]) -> dict[str, Any]:
    """The document, as plain JSON values.

    The resources are registered with an application of its own, so that the one that serves pays for none of this.
    """
    app = flask.Flask(__name__, static_folder=None)
    app.config |= {"API_TITLE": "kvquote", "API_VERSION": __version__, "OPENAPI_VERSION": OPENAPI_VERSION}
    api = _Api(app, spec_kwargs={"servers": [{"url": "/"}], "info": {"description": DESCRIPTION}})
    _describe_fields(api.ma_plugin.converter)
    api.spec.components.header(
        "ETag", {"description": "Strong; send it back in If-None-Match.", "schema": {"type": "string"}}
    )
    for resource in resources:
        api.register_blueprint(resource)
    return _finished(json.loads(json.dumps(api.spec.to_dict())))


@cache
def _text(resources: tuple[Blueprint, ...]) -> str:
    return json.dumps(build(resources), indent=1) + "\n"


class _Api(flask_smorest.Api):  # type: ignore[misc]  # flask-smorest ships no types
    """Documents errors as the problems they are, and nothing of flask-smorest's features that are not used here."""

    ERROR_SCHEMA = PROBLEM

    def _register_error_handlers(self) -> None:
        pass

    def _register_etag_headers(self) -> None:
        pass

    def _register_pagination_header(self) -> None:
        pass

    def _register_responses(self) -> None:
        content = {PROBLEM_TYPE: {"schema": PROBLEM}}
        self.spec.components.response("DEFAULT_ERROR", {"description": "A problem.", "content": content}, lazy=True)


def _describe_fields(converter: OpenAPIConverter) -> None:
    def asked(_: OpenAPIConverter, field: fields.Field[Any], **__: Any) -> Properties:  # noqa: ANN401 - apispec's own
        return _nullable(field) if isinstance(field, AskedField) else {}

    def commas(_: OpenAPIConverter, field: fields.Field[Any], **__: Any) -> Properties:  # noqa: ANN401 - apispec's own
        return {"style": "form", "explode": False} if isinstance(field, ListOf) else {}

    converter.add_attribute_function(asked)  # type: ignore[no-untyped-call]  # apispec leaves it without types
    converter.add_parameter_attribute_function(commas)


def _nullable(field: AskedField) -> Properties:
    described = field.described()
    if field.nullable:
        described["type"] = [described["type"], "null"]
        if isinstance(described.get("enum"), list):
            described["enum"] = [*described["enum"], None]  # type: ignore[misc]  # a list, as just seen
    return described


def _finished(spec: dict[str, Any]) -> dict[str, Any]:
    for name in _QUESTIONS:
        either = [{"anyOf": [{"required": [name]} for name in pair]} for pair in _ALTERNATIVES]
        spec["components"]["schemas"][name]["allOf"] = either
    spec["components"]["parameters"] = {"If-None-Match": _IF_NONE_MATCH}
    for operations in spec["paths"].values():
        operation = operations.get("get", {})
        if "304" in operation.get("responses", {}):
            operation.setdefault("parameters", []).append({"$ref": "#/components/parameters/If-None-Match"})
    return {part: spec[part] for part in ("openapi", "info", "servers", "tags", "paths", "components")}


_IF_NONE_MATCH = {
    "in": "header",
    "name": "If-None-Match",
    "description": "ETag of the answer at hand; 304 if it is the present one.",
    "schema": {"type": "string"},
}
