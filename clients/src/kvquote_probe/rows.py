"""A row of the wire contract made of a reading: what is sent, byte for byte, on every try.

A row's id and time are chosen here, once, and are in the spool before anything is sent; that is what makes it safe to
repeat. Nothing in a row names the machine: texts that look like a path, an address or an identity become null.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any
from uuid import uuid4

from kvquote_probe import __version__
from kvquote_probe.names import scrubbed
from kvquote_probe.readings import Reading, thinned

_FOLDER_OF_CONFIG = "_name_or_path"


def make_row(reading: Reading, probe_id: str, at: datetime | None = None) -> dict[str, Any]:
    """The row of a reading taken now, or `at` a time with an offset."""
    return {
        "id": str(uuid4()),
        "probe_id": probe_id,
        "kind": reading.kind,
        "measured_at": rfc3339(at or datetime.now(timezone.utc)),
        "gpu": scrubbed(dict(reading.gpu)) if reading.gpu is not None else None,
        "software": _told({"probe": __version__, **scrubbed(dict(reading.software or {}))}),
        "setup": _setup(reading.setup),
        "values": scrubbed(dict(reading.values)),
        "samples": thinned(reading.samples),
    }


def encoded(row: Mapping[str, Any]) -> str:
    """A row as it is kept and sent. Raises ValueError for NaN and infinities, which JSON has no word for."""
    return json.dumps(row, separators=(",", ":"), allow_nan=False, ensure_ascii=False)


def rfc3339(at: datetime) -> str:
    """A time in UTC, to the millisecond."""
    return at.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _setup(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    setup = _told(scrubbed(dict(given)))
    if isinstance(setup.get("config"), dict):
        setup["config"] = {name: value for name, value in _told(setup["config"]).items() if name != _FOLDER_OF_CONFIG}
    return setup


def _told(given: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if value is not None}
