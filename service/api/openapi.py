"""`/openapi.json`: what the views declare, as a document."""

from collections.abc import Sequence

import flask
from flask import Response

from service.api.replies import document
from service.api.rest import Blueprint


def described_by(resources: Sequence[Blueprint]) -> flask.Blueprint:
    """The page that describes the resources."""
    page = flask.Blueprint("openapi", __name__)

    @page.get("/openapi.json")
    def openapi() -> Response:
        # flask-smorest, apispec and YAML take a quarter of Flask's time to import; most processes are never asked.
        from service.api.openapi_document import text  # noqa: PLC0415

        return document(text(tuple(resources)))

    return page
