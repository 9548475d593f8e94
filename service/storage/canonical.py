"""Facts as JSON text: compact for keeping, canonical for telling whether two are the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import orjson

_EXACT: Final = 2**53
_DEEPEST: Final = 254
"""Levels that orjson writes; what is nested deeper ends in a RecursionError where somebody walks through it."""


def compact_json(value: object) -> str:
    """JSON without blanks, keys in the order given; raises ValueError for what JSON cannot hold, such as infinity."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def sorted_json(value: object) -> str:
    """JSON as `compact_json` writes it, but the same for the same value in whatever order its names came."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True)


def checked_json(stored: bytes) -> Any:  # noqa: ANN401  # any JSON value
    """What a JSON text holds; raises ValueError for what could be neither walked through nor written again.

    That is what is no JSON, such as NaN, a number beyond every float, half a surrogate pair, and deep nesting. Whole
    numbers beyond 64 bits come as floats.
    """
    value = orjson.loads(stored)
    # The levels are at most the brackets, which are counted in no time.
    if stored.count(b"{") + stored.count(b"[") > _DEEPEST:
        try:
            orjson.dumps(value)
        except TypeError as error:
            raise ValueError("is nested too deeply") from error
    return value


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
