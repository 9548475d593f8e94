"""What a person reads: readings, the state of the spool, uploads."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvquote_probe.spool import Counts, Spool, row_of
from kvquote_probe.upload import End, Report

_MOST_ASIDE = 20


def reading_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """A row: its kind and device, then its values."""
    gpu = (row.get("gpu") or {}).get("name") or "a device that is not told"
    setup = row.get("setup") or {}
    about = f", {setup['model']}" if setup.get("model") else ""
    yield f"{row['kind']} on {gpu}{about}"
    for name, value in row["values"].items():
        yield f"  {name:<24}{_shown(value)}"


def status_lines(spool: Spool, counts: Counts) -> Iterator[str]:
    """The state of a spool."""
    yield f"spool    {spool.folder}"
    yield f"probe    {spool.probe_id}"
    yield f"waiting  {counts.waiting:,}"
    yield f"aside    {counts.aside:,}"
    answered = ", ".join(f"{verdict} {rows:,}" for verdict, rows in counts.answered.items())
    yield f"answered {answered or 'none yet'}"
    for row in spool.aside(_MOST_ASIDE):
        yield f"  {row.id} {row.verdict} {row.answered_at}: {row.detail or 'no reason is told'}"
    if counts.aside > _MOST_ASIDE:
        yield f"  and {counts.aside - _MOST_ASIDE:,} more; --json lists all"
    if counts.aside:
        yield "  `kvquote-probe upload --again` sends them once more, as after an upgrade of the service"


def status_document(spool: Spool, counts: Counts) -> str:
    """The state of a spool as a JSON object, with each row that is aside."""
    aside = [{**row._asdict(), "row": row_of(row.text)} for row in spool.aside()]
    for row in aside:
        del row["text"]
    document = {
        "probe_id": spool.probe_id,
        "waiting": counts.waiting,
        "answered": counts.answered,
        "aside": aside,
    }
    return json.dumps(document, ensure_ascii=False)


def upload_line(report: Report, waiting: int) -> str:
    """What an upload did, in a sentence."""
    rows = sum(report.counts.values())
    verdicts = ", ".join(f"{count:,} {verdict}" for verdict, count in sorted(report.counts.items()))
    told = f"{rows:,} rows answered" + (f": {verdicts}" if verdicts else "")
    if report.end is End.DONE:
        return told
    after = "`kvquote-probe upload` sends them later" if report.end is End.LATER else "see to that, then upload again"
    return f"{told}; {waiting:,} still wait ({report.why}); {after}"


def _shown(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return json.dumps(value) if isinstance(value, (dict, list)) else str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
