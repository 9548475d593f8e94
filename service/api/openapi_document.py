"""The OpenAPI 3.1 document: built from what the views declare, once, when it is first asked for."""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

import flask
import flask_smorest
from apispec.ext.marshmallow.openapi import OpenAPIConverter
from marshmallow import fields

from service import __version__
from service.api.problem_documents import PROBLEM_TYPE
from service.api.rest import Blueprint, described
from service.api.schemas.fields import AskedField, ListOf, Properties
from service.api.schemas.problem import PROBLEM
from service.storage.migrations import data_folder

OPENAPI_VERSION = "3.1.1"
DESCRIPTION = (
    "How many sequences of a language model fit a GPU, what takes the memory, and what one decode step reads. "
    "Within the life of these paths keys are only added to answers, never renamed or retyped: ignore keys you do not "
    "know. Unknown names in a question are refused. Every answer carries X-Request-ID, yours if you sent one."
)
# A question without one of each pair is refused; JSON Schema says so by what must be there.
_ALTERNATIVES = (("model", "config", "command"), ("gpu", "memory_bytes", "gpus", "gpus_memory_bytes"))
_QUESTIONS = ("FitQuestion", "TrafficQuestion")


def build(resources: Sequence[Blueprint]) -> dict[str, Any]:
    """The document, as plain JSON values.

    The resources are registered with an application of its own, so that the one that serves pays for none of this.
    """
    app = flask.Flask(__name__, static_folder=None)
    app.config |= {"API_TITLE": "kvquote", "API_VERSION": __version__, "OPENAPI_VERSION": OPENAPI_VERSION}
    api = _Api(app, spec_kwargs={"servers": [{"url": "/"}], "info": {"description": DESCRIPTION}})
    _describe_fields(api.ma_plugin.converter)
    for name, about in _HEADERS.items():
        api.spec.components.header(name, {"description": about, "schema": {"type": "string"}})
    api.spec.components.security_scheme("token", {"type": "http", "scheme": "bearer", "description": _SECURITY})
    for resource in resources:
        api.register_blueprint(_documented(resource))
    return _finished(json.loads(json.dumps(api.spec.to_dict())))


def _documented(resource: Blueprint) -> flask_smorest.Blueprint:
    """The same routes as flask-smorest keeps them."""
    documented = flask_smorest.Blueprint(resource.name, resource.import_name, description=resource.description)
    for route in resource.routes:
        documented.add_url_rule(
            route.rule, view_func=described(route.view), methods=route.methods, parameters=list(route.parameters)
        )
    return documented


@cache
def text(resources: tuple[Blueprint, ...]) -> str:
    """The document as it is sent."""
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
        types = described["type"]
        described["type"] = [*types, "null"] if isinstance(types, list) else [types, "null"]
        if isinstance(described.get("enum"), list):
            described["enum"] = [*described["enum"], None]  # type: ignore[misc]  # a list, as just seen
    return described


def _finished(spec: dict[str, Any]) -> dict[str, Any]:
    spec["components"]["schemas"].update(_facts_schemas())
    for name in _QUESTIONS:
        either = [{"anyOf": [{"required": [name]} for name in pair]} for pair in _ALTERNATIVES]
        spec["components"]["schemas"][name]["allOf"] = either
    spec["components"]["parameters"] = _CONDITIONS
    for operations in spec["paths"].values():
        for method, operation in operations.items():
            conditions = _conditions(method, operation) if method != "parameters" else ()
            for name in conditions:
                operation.setdefault("parameters", []).append({"$ref": f"#/components/parameters/{name}"})
    return {part: spec[part] for part in ("openapi", "info", "servers", "tags", "paths", "components")}


def _conditions(method: str, operation: dict[str, Any]) -> tuple[str, ...]:
    """The conditional headers that an operation reads."""
    if "304" in operation["responses"]:
        return ("If-None-Match",)
    if operation["operationId"] == "putMeasurement":
        # Its own id makes a repeat safe.
        return ()
    if operation["operationId"] == "importModel":
        return ("If-Match", "Create-If-None-Match")
    return {"put": ("If-Match", "Create-If-None-Match"), "delete": ("If-Match",)}.get(method, ())


def _facts_schemas() -> dict[str, Any]:
    """The schemas that the catalog's files are checked with: what a PUT takes is what a file holds."""
    files = sorted((data_folder("catalog") / "schema").glob("*.json"))
    return {_facts_name(file.name): _moved(json.loads(file.read_text("utf-8")), file.name) for file in files}


def _facts_name(file: str) -> str:
    """`GpuFacts` for gpu.json, `EngineVllmFacts` for engine_vllm.json."""
    return "".join(word.capitalize() for word in file.removesuffix(".json").split("_")) + "Facts"


def _moved(value: Any, file: str) -> Any:  # noqa: ANN401 - any part of a schema
    """A schema as a component: its references lead to components, and its dialect is the document's own."""
    if isinstance(value, dict):
        return {
            key: _reference(inner, file) if key == "$ref" else _moved(inner, file)
            for key, inner in value.items()
            if key not in {"$schema", "$id"}
        }
    return [_moved(inner, file) for inner in value] if isinstance(value, list) else value


def _reference(reference: str, file: str) -> str:
    target, _, inside = reference.partition("#")
    return f"#/components/schemas/{_facts_name(target or file)}{inside}"


_SECURITY = (
    "Made with kvquote-server token create; the scope catalog:write lets it write to the catalog, measurements:write "
    "lets it upload measurements."
)
_HEADERS = {
    "ETag": "Strong; send it back in If-None-Match, or in If-Match with a change.",
    "Link": 'Where the next page is, with rel="next"; absent on the last one.',
    "Location": "Where the new entry is.",
}


def _header(name: str, about: str) -> dict[str, Any]:
    return {"in": "header", "name": name, "description": about, "schema": {"type": "string"}}


_CONDITIONS = {
    "If-None-Match": _header("If-None-Match", "ETag of the answer at hand; 304 if it is the present one."),
    "If-Match": _header("If-Match", "ETag of the entry as it was read; 412 if it has changed since."),
    "Create-If-None-Match": _header("If-None-Match", "* to create an entry; 412 if there is one."),
}
