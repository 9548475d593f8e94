"""Rows as JSON, CSV or newline-delimited JSON: `format` says which, or else the Accept header."""

import csv
import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from flask import Request

from service.api.problems import ProblemError
from service.api.replies import encode

Row = Mapping[str, Any]


class Format(StrEnum):
    """The names that `format` takes."""

    JSON = "json"
    CSV = "csv"
    NDJSON = "ndjson"


CONTENT_TYPES = {
    Format.JSON: "application/json",
    Format.CSV: "text/csv; charset=utf-8; header=present",
    Format.NDJSON: "application/x-ndjson",
}
# The first is what a client gets that takes anything.
_MEDIA_TYPES = {"application/json": Format.JSON, "text/csv": Format.CSV, "application/x-ndjson": Format.NDJSON}


class Table(NamedTuple):
    """One page: rows of equal columns, and the keys that stand beside `items` in JSON."""

    columns: Sequence[str]
    rows: Sequence[Row]
    beside: Mapping[str, Any]


def chosen_format(asked: str | None, request: Request) -> Format:
    """The format to answer in; raises ProblemError (406) where the client takes none of them."""
    if asked is not None:
        return Format(asked)
    if not request.environ.get("HTTP_ACCEPT"):
        return Format.JSON
    best = request.accept_mimetypes.best_match(_MEDIA_TYPES)
    if best is None:
        raise ProblemError("not-acceptable", f"Lists are {', '.join(_MEDIA_TYPES)}.")
    return _MEDIA_TYPES[best]


def written(table: Table, form: Format) -> str:
    """The page as text."""
    return _WRITERS[form](table)


def _json(table: Table) -> str:
    return encode({"items": table.rows, **table.beside}) + "\n"


def _ndjson(table: Table) -> str:
    return "".join(f"{encode(row)}\n" for row in table.rows)


def _csv(table: Table) -> str:
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(table.columns)
    writer.writerows(_cells(table.columns, table.rows))
    return text.getvalue()


def _cells(columns: Sequence[str], rows: Iterable[Row]) -> Iterable[list[Any]]:
    return ([_cell(row[name]) for name in columns] for row in rows)


def _cell(value: object) -> object:
    """A value as analysts' tools read it: nothing for null, and booleans as JSON spells them."""
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else value


_WRITERS: Mapping[Format, Callable[[Table], str]] = {Format.JSON: _json, Format.CSV: _csv, Format.NDJSON: _ndjson}
