"""Answers as flat rows: what `--csv` writes."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Of the question what decides the answer most; the rest is in --json.
_ASKED: Final = ("context_tokens", "batch_size", "weight_dtype", "kv_dtype", "engine_version")


def flat(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The single figures of an answer, one level deep, the ledger's parts by their names."""
    question = answer.get("question") or {}
    row = {f"question.{name}": question.get(name) for name in _ASKED}
    for name, value in answer.items():
        if name not in {"question", "taken", "ledger"}:
            row.update(_figures(name, value))
    ledger = answer.get("ledger") or {}
    row.update(_figures("ledger", ledger))
    row.update({f"ledger.{part['name']}_bytes": part["bytes"] for part in ledger.get("parts", ())})
    return row


def csv_lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """A header and a line for each row; names are those of all rows, as they first come."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names:
        yield _line(names)
    for row in rows:
        yield _line([_cell(row.get(name)) for name in names])


def _figures(name: str, value: object) -> dict[str, Any]:
    if isinstance(value, dict):
        return {f"{name}.{key}": inner for key, inner in value.items() if not isinstance(inner, (dict, list))}
    return {} if isinstance(value, list) else {name: value}


def _cell(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _line(cells: Sequence[str]) -> str:
    written = io.StringIO()
    csv.writer(written, lineterminator="").writerow(cells)
    return written.getvalue()
