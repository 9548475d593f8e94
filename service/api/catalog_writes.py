"""Writing the catalog: who may, on which condition, what speaks against it, and the revision it becomes."""

from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

from flask import Response, request

from service.api import conditional
from service.api.auth import authorised
from service.api.bodies import JSON_TYPE, read_object
from service.api.catalog_reads import Kind, entry_document, found
from service.api.preconditions import Precondition
from service.api.problems import ProblemError
from service.api.queries import read_query
from service.api.replies import encode
from service.api.schemas.catalog import WRITE_QUERY
from service.api.services import services, snapshot
from service.domain import model
from service.domain.catalog import Entry
from service.domain.errors import Fault, ValidationError
from service.storage.canonical import whole_numbers
from service.storage.catalog import Change
from service.storage.entry_checks import entry_faults
from service.storage.entry_rules import measured_facts_lost, taken_names, unknown_references, users_of
from service.storage.entry_writes import Permit, Writer, Written, write_entry
from service.storage.migrations import data_folder
from service.storage.snapshot import Snapshot
from service.storage.tokens import Scope
from service.telemetry import request_ids

if TYPE_CHECKING:
    from service.storage.catalog_schema import CatalogSchemas


def put_entry(kind: Kind, name: str) -> Response:
    """Create an entry, or make it what the body says."""
    writer = writer_of_request()
    condition = Precondition.of(request.environ, may_create=True)
    asked = WRITE_QUERY.read_texts(read_query(request.environ))
    entry = _entry(kind, name)
    return store_entry(kind, entry, writer, condition, overwrite=bool(asked.get("overwrite_measured")))


def store_entry(kind: Kind, entry: Entry, writer: Writer, condition: Precondition, *, overwrite: bool) -> Response:
    """Check an entry as a file of the catalog is, and write it; `overwrite` lets it replace measured facts."""
    _invalid(entry_faults(entry, _schemas(), "the path names"))

    def permit(catalog: Snapshot, before: Entry | None) -> None:
        condition.check(conditional.entry_tag(before) if before else None)
        _refuse("name-taken", taken_names(catalog, entry))
        _invalid(unknown_references(catalog, entry))
        if before is not None and not overwrite:
            _refuse("measured-fact", measured_facts_lost(before.facts, entry.facts))

    written = _write(Change(kind.kind, entry.id, entry.facts), writer, permit)
    return _answer(kind, written.entry or entry, created=written.created)


def delete_entry(kind: Kind, name: str) -> Response:
    """Delete an entry; raises ProblemError (404) where there is none of that id."""
    writer = writer_of_request()
    condition = Precondition.of(request.environ, may_create=False)
    WRITE_QUERY.read_texts(read_query(request.environ))

    def permit(catalog: Snapshot, before: Entry | None) -> None:
        if before is None:
            _not_here(catalog, kind, name)
        else:
            condition.check(conditional.entry_tag(before))
            _refuse_used(users_of(catalog, before))

    _write(Change(kind.kind, name, None), writer, permit)
    return Response(status=204)


def writer_of_request() -> Writer:
    """Who writes; raises ProblemError (401, 403) for who may not."""
    return Writer(authorised(Scope.CATALOG_WRITE), request.environ.get(request_ids.ENVIRON_KEY))


def _entry(kind: Kind, name: str) -> Entry:
    """The entry in the body."""
    settings = services().settings
    body = read_object(request.environ, settings.max_body_bytes, settings.max_json_depth)
    if isinstance(body.get("facts"), dict):
        detail = "A PUT takes the facts alone: send what a GET shows under facts, and not what is around it."
        raise ValidationError(Fault("/facts", detail))
    return Entry(kind.kind, name, whole_numbers(body), 0)


def _write(change: Change, writer: Writer, permit: Permit) -> Written:
    """Write, and let this process answer from what was written; the others see it when their timers look."""
    written = write_entry(services().engine, snapshot(), change, writer, permit)
    services().keeper.refresh()
    return written


def _answer(kind: Kind, entry: Entry, *, created: bool) -> Response:
    document = entry_document(kind, entry, lambda: model.from_facts(entry))
    response = Response(encode(document) + "\n", 201 if created else 200, content_type=JSON_TYPE)
    response.headers["ETag"] = conditional.entry_tag(entry)
    response.headers["Cache-Control"] = "no-store"
    if created:
        response.headers["Location"] = f"{kind.path}/{entry.id}"
    return response


def _refuse(problem: str, faults: Iterable[Fault]) -> None:
    found_faults = list(faults)
    if found_faults:
        raise ProblemError(problem, found_faults[0].detail, found_faults)


def _invalid(faults: Iterable[Fault]) -> None:
    found_faults = list(faults)
    if found_faults:
        raise ValidationError(*found_faults)


def _refuse_used(users: tuple[str, ...]) -> None:
    if users:
        raise ProblemError("entry-in-use", f"It is named by {', '.join(users)}, and perhaps by others.")


def _not_here(catalog: Snapshot, kind: Kind, name: str) -> None:
    """A write goes by the id alone: an alias is answered with the id that it leads to."""
    there = found(catalog, kind.kind, name)
    detail = f"{name[:200]!r} is a name of {there.id!r}: write to {kind.path}/{there.id}."
    raise ProblemError("not-found", detail, [Fault("", detail, (there.id,))])


@cache
def _schemas() -> "CatalogSchemas":
    # jsonschema costs 10 MB and a tenth of a second, which a process that never writes does not pay.
    from service.storage.catalog_schema import CatalogSchemas  # noqa: PLC0415

    return CatalogSchemas(data_folder("catalog") / "schema")
