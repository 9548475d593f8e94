"""flask-smorest, bent where it had to be: what a view declares is what the OpenAPI document says.

Its own decorators put two wrappers around a view and build what the contract forbids (422 for a wrong Content-Type,
`application/json` for errors); the ones here attach the same documentation and call our reading of requests. They
write flask-smorest's private `_apidoc`, which is why it is pinned below 0.48 and the contract tests read the result.
It is imported by `openapi_document` alone, which hands it the routes that are noted here.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, NamedTuple

import flask
from flask import Response
from marshmallow import Schema

from service.api.asking import body_reader, query_reader
from service.api.bodies import JSON_TYPE
from service.api.schemas.closed import ClosedSchema

View = Callable[..., Response]
Shape = Schema | Mapping[str, Any] | Callable[[], Schema]
"""What an answer looks like: known, or what tells it once the document is asked for."""
Decorator = Callable[[View], View]


class Route(NamedTuple):
    """An address with the view that answers there."""

    rule: str
    view: View
    methods: Sequence[str]
    parameters: Sequence[Mapping[str, Any]]
    """Of its path, where the document shall say more than their names."""


class Blueprint(flask.Blueprint):
    """Views with their documentation. Only `asks_by_…` wraps a view; the other decorators leave it as it is."""

    def __init__(self, name: str, import_name: str, description: str) -> None:
        super().__init__(name, import_name)
        self.description = description
        self.routes: list[Route] = []

    def route(  # type: ignore[override]  # flask's takes views of any type, and options that nothing here uses
        self, rule: str, *, methods: Sequence[str] = ("GET",), parameters: Sequence[Mapping[str, Any]] = ()
    ) -> Decorator:
        """Let the view answer at an address, and note it for the document."""

        def decorate(view: View) -> View:
            self.routes.append(Route(rule, view, methods, parameters))
            self.add_url_rule(rule, view_func=view, methods=methods)
            return view

        return decorate

    @staticmethod
    def asks_by_query(schema: ClosedSchema) -> Decorator:
        """Call the view with the question of the query string."""
        return _asking(query_reader(schema), {"in": "query", "required": True, "schema": schema})

    @staticmethod
    def takes_query(schema: ClosedSchema) -> Decorator:
        """Document the query string of a view that reads it itself."""

        def decorate(view: View) -> View:
            parameters = [{"in": "query", "required": True, "schema": schema}]
            _documentation(view)["arguments"] = {"parameters": parameters, "responses": {}}
            return view

        return decorate

    @staticmethod
    def takes_body(schema: ClosedSchema, examples: Mapping[str, Mapping[str, Any]]) -> Decorator:
        """Document the JSON body of a view that reads it itself."""

        def decorate(view: View) -> View:
            parameters = [{"in": "json", "required": True, "schema": schema, "examples": dict(examples)}]
            _documentation(view)["arguments"] = {"parameters": parameters, "responses": {}}
            return view

        return decorate

    @staticmethod
    def asks_by_body(schema: ClosedSchema, examples: Mapping[str, Mapping[str, Any]]) -> Decorator:
        """Call the view with the question of the JSON body."""
        return _asking(
            body_reader(schema), {"in": "json", "required": True, "schema": schema, "examples": dict(examples)}
        )

    @staticmethod
    def answers(
        schema: Shape | None,
        description: str,
        status: int = 200,
        content_type: str = JSON_TYPE,
        headers: tuple[str, ...] = (),
    ) -> Decorator:
        """Document one of the view's answers."""
        answer: dict[str, Any] = {"description": description, "content_type": content_type}
        if schema is not None:
            answer["schema"] = schema
        if headers:
            answer["headers"] = {name: {"$ref": f"#/components/headers/{name}"} for name in headers}

        def decorate(view: View) -> View:
            responses = _documentation(view).setdefault("response", {}).setdefault("responses", {})
            responses.setdefault(status, []).append(answer)
            return view

        return decorate

    @staticmethod
    def named(operation_id: str, **documentation: Any) -> Decorator:  # noqa: ANN401 - any part of an OpenAPI operation
        """Give the operation the name that generated clients call it by."""

        def decorate(view: View) -> View:
            _documentation(view)["manual_doc"] = {"operationId": operation_id, **documentation}
            return view

        return decorate


def _asking(read: Callable[[], Mapping[str, Any]], parameters: Mapping[str, Any]) -> Decorator:
    def decorate(view: View) -> View:
        @wraps(view)
        def asked(**path: str) -> Response:
            return view(read(), **path)

        _documentation(asked)["arguments"] = {"parameters": [dict(parameters)], "responses": {}}
        return asked

    return decorate


def _documentation(view: View) -> dict[str, Any]:
    documentation: dict[str, Any] = view.__dict__.setdefault("_apidoc", {})
    return documentation


def described(view: View) -> View:
    """The view, with the shape of each of its answers known."""
    for answers in _documentation(view).get("response", {}).get("responses", {}).values():
        for answer in answers:
            # One look, since another thread may be doing the same.
            shape = answer.get("schema")
            if callable(shape):
                answer["schema"] = shape()
    return view
