"""Facts as JSON text: compact for keeping, canonical for telling whether two are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

_EXACT: Final = 2**53


def compact_json(value: object) -> str:
    """JSON without blanks, keys in the order given; raises ValueError for what JSON cannot hold, such as infinity."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def sorted_json(value: object) -> str:
    """JSON as `compact_json` writes it, but the same for the same value in whatever order its names came."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def whole_numbers(value: Any) -> Any:  # noqa: ANN401  # any JSON value
    """The same value with every float that has no fraction as an integer, as JSON Schema reads it: 8e10 is 80000000000.

    Bytes that came as a float would be answered as one. Beyond 2^53 a float is no exact integer and stays what it is.
    """
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {name: whole_numbers(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [whole_numbers(inner) for inner in value]
    return value


def facts_digest(facts: Mapping[str, Any]) -> str:
    """SHA-256 of the facts with sorted keys, in hex: the same for the same facts in whatever order they are written."""
    return hashlib.sha256(sorted_json(facts).encode()).hexdigest()
