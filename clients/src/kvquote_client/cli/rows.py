"""Answers as flat rows: what `--csv` writes."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from kvquote_client.reading import parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from kvquote_client.answers import Quoted
    from kvquote_client.reading import Answer

# Of the question what decides the answer most; the rest is in --json.
_ASKED: Final = ("context_tokens", "batch_size", "weight_dtype", "kv_dtype", "engine_version")
_FIGURES: Final = {"int", "float", "str", "bool"}
# What spreadsheets run as a formula (OWASP, CSV injection); numbers are none, texts come from whoever named things.
_FORMULAS: Final = ("=", "+", "-", "@")


def flat(answer: Quoted) -> dict[str, Any]:
    """The single figures of an answer, one level deep, the ledger's parts by their names.

    Columns are those that the class declares, so a file has the same whatever is null this time.
    """
    row = {f"question.{name}": (answer.question or {}).get(name) for name in _ASKED}
    inner = parts(type(answer))
    for each in fields(answer):
        if each.name in inner:
            part = answer.raw.get(each.name) or {}
            row.update({f"{each.name}.{name}": part.get(name) for name in _figures(inner[each.name])})
        elif each.name in _figures(type(answer)):
            row[each.name] = answer.raw.get(each.name)
    ledger = answer.raw.get("ledger") or {}
    row.update({f"ledger.{part.get('name')}_bytes": part.get("bytes") for part in ledger.get("parts") or ()})
    return row


def _figures(kind: type[Answer]) -> list[str]:
    return [each.name for each in fields(kind) if str(each.type).removesuffix(" | None") in _FIGURES]


def columns(kind: type[Answer]) -> list[str]:
    """The names that rows of that class have, for a list that has none."""
    return [each.name for each in fields(kind) if each.name != "raw"]


def csv_lines(rows: Sequence[Mapping[str, Any]], empty: Sequence[str] = ()) -> Iterator[str]:
    """A header and a line for each row; names are those of all rows, as they first come, `empty` where none does."""
    names = list(dict.fromkeys(name for row in rows for name in row)) if rows else empty
    if names:
        yield _line(names)
    for row in rows:
        yield _line([_cell(row.get(name)) for name in names])


def _cell(value: object) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    # One line a row, and no character that moves a terminal's cursor.
    text = text if text.isprintable() else "".join(char if char.isprintable() else "?" for char in text)
    return f"'{text}" if isinstance(value, str) and text.startswith(_FORMULAS) else text


def _line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(cells)
    return written.getvalue()
