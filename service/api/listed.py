"""Lists beside the catalog's: a page in each of its formats, with the link to the next one."""

from collections.abc import Callable, Mapping
from typing import Any

from flask import Response, request
from marshmallow import Schema

from service.api.paging import next_link
from service.api.queries import read_query
from service.api.replies import document, encode
from service.api.rest import Blueprint, View
from service.api.schemas.closed import Asked
from service.api.tables import CONTENT_TYPES, Format, Table, chosen_format, written


def in_pages(blueprint: Blueprint, page: Schema) -> Callable[[View], View]:
    """Document a list as it is answered in each of its formats."""

    def decorate(view: View) -> View:
        blueprint.answers(page, "A page.", headers=("ETag", "Link"))(view)
        for form in (Format.CSV, Format.NDJSON):
            media_type = CONTENT_TYPES[form].partition(";")[0]
            shape = {"type": "string"}
            blueprint.answers(shape, "A page.", content_type=media_type, headers=("ETag", "Link"))(view)
        return blueprint.answers(None, "The client has the present page.", 304, headers=("ETag",))(view)

    return decorate


def listed(read: Callable[[Mapping[str, str]], Asked], page: Callable[[Asked], Table]) -> Response:
    """The page that the query string asks for, in the format that it or Accept prefers."""
    asked = read(read_query(request.environ))
    form = chosen_format(asked.get("format"), request)
    table = page(asked)
    shown = table if form is not Format.CSV else table._replace(rows=[_flat(row) for row in table.rows])
    response = document(written(shown, form), CONTENT_TYPES[form])
    if table.beside["next_cursor"]:
        link = next_link(request.path, read_query(request.environ), table.beside["next_cursor"])
        response.headers["Link"] = link
    response.headers["Vary"] = "Accept"
    return response


def _flat(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose objects and lists are JSON in a cell."""
    return {name: encode(value) if isinstance(value, (dict, list)) else value for name, value in row.items()}
