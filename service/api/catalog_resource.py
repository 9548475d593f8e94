"""A kind of catalog entry as a resource: its list, its entries, their history, and the writes that change them.

The five kinds differ in their rows and filters, which their own modules declare; what is done with a request is here
and in `catalog_reads` and `catalog_writes`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Response
from marshmallow import Schema

from service.api.auth import TOKEN_SECURITY
from service.api.catalog_reads import Kind, list_entries, list_revisions, show_entry
from service.api.catalog_writes import delete_entry, put_entry
from service.api.rest import Blueprint
from service.api.schemas.catalog import ENTRY_HISTORY, ENTRY_QUERY, PAGE_QUERY, WRITE_QUERY
from service.api.tables import CONTENT_TYPES, Format

View = Callable[..., Response]


@dataclass(frozen=True, slots=True)
class Documents:
    """How a resource is called in the OpenAPI document, and what its answers look like; `noun` has its article."""

    one: str
    many: str
    noun: str
    about: str
    page: Schema
    entry: Schema


def catalog_resource(kind: Kind, documents: Documents) -> Blueprint:
    """The routes of a kind, documented."""
    resource = Blueprint(kind.path.strip("/"), __name__, description=documents.about)
    for add in (_list, _show, _history, _put, _delete):
        add(resource, kind, documents)
    return resource


def _list(resource: Blueprint, kind: Kind, documents: Documents) -> None:
    def view() -> Response:
        """Filters narrow it; format or Accept gives CSV or newline-delimited JSON."""
        return list_entries(kind)

    _documented_table(view, documents.page)
    resource.takes_query(kind.query)(view)
    _named(view, f"list{documents.many}", f"List {resource.name}")
    _add(resource, kind.path, view, f"list_{resource.name}", "GET")


def _show(resource: Blueprint, kind: Kind, documents: Documents) -> None:
    def view(name: str) -> Response:
        """By its id, hub id or alias, in any case; a slash may be written as it is or as %2F."""
        return show_entry(kind, name)

    resource.answers(documents.entry, "The entry.", headers=("ETag",))(view)
    resource.answers(None, "The client has the present entry.", 304, headers=("ETag",))(view)
    resource.takes_query(ENTRY_QUERY)(view)
    _named(view, f"get{documents.one}", f"Read {documents.noun}")
    _add(resource, f"{kind.path}/<path:name>", view, f"show_{resource.name}", "GET")


def _history(resource: Blueprint, kind: Kind, documents: Documents) -> None:
    def view(name: str) -> Response:
        """The newest first, of entries that were deleted too."""
        return list_revisions(kind, name)

    _documented_table(view, ENTRY_HISTORY)
    resource.takes_query(PAGE_QUERY)(view)
    _named(view, f"list{documents.one}Revisions", f"Read what {documents.noun} went through")
    _add(resource, f"{kind.path}/<path:name>/revisions", view, f"list_{resource.name}_revisions", "GET")


def _put(resource: Blueprint, kind: Kind, documents: Documents) -> None:
    def view(name: str) -> Response:
        """The body is the facts in the catalog's own schema; a change needs If-Match, a new one If-None-Match: *."""
        return put_entry(kind, name)

    resource.answers(documents.entry, "The entry as it is now.", headers=("ETag",))(view)
    resource.answers(documents.entry, "The entry was created.", 201, headers=("ETag", "Location"))(view)
    resource.takes_query(WRITE_QUERY)(view)
    reference = {"$ref": f"#/components/schemas/{documents.one}Facts"}
    body = {"required": True, "content": {"application/json": {"schema": reference}}}
    _named(view, f"put{documents.one}", f"Create or change {documents.noun}", requestBody=body, security=TOKEN_SECURITY)
    _add(resource, f"{kind.path}/<path:name>", view, f"put_{resource.name}", "PUT")


def _delete(resource: Blueprint, kind: Kind, documents: Documents) -> None:
    def view(name: str) -> Response:
        """Its history stays."""
        return delete_entry(kind, name)

    resource.answers(None, "The entry is gone.", 204)(view)
    _named(view, f"delete{documents.one}", f"Delete {documents.noun}", security=TOKEN_SECURITY)
    _add(resource, f"{kind.path}/<path:name>", view, f"delete_{resource.name}", "DELETE")


def _named(view: View, operation_id: str, summary: str, **documentation: Any) -> None:  # noqa: ANN401 - as Blueprint.named
    Blueprint.named(operation_id, summary=summary, description=view.__doc__, **documentation)(view)


def _documented_table(view: View, page: Schema) -> None:
    Blueprint.answers(page, "A page.", headers=("ETag", "Link"))(view)
    for form in (Format.CSV, Format.NDJSON):
        media_type = CONTENT_TYPES[form].partition(";")[0]
        Blueprint.answers({"type": "string"}, "A page.", content_type=media_type, headers=("ETag", "Link"))(view)
    Blueprint.answers(None, "The client has the present page.", 304, headers=("ETag",))(view)


def _add(resource: Blueprint, rule: str, view: View, name: str, method: str) -> None:
    view.__name__ = name
    resource.route(rule, methods=[method])(view)
