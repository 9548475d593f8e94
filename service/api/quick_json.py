"""JSON of uploads by orjson where it says and reads what json does; what is in doubt is left to json.

orjson takes a part of the time, but keeps the last of two equal names, makes floats of integers beyond 64 bits, and
spells small and large floats in its own way. The first two show in what it returns, the last in what it is given.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from service.api.bodies import parse
from service.api.replies import encode_sorted

# From here on a float may have been an integer of more than 64 bits.
_DOUBTFUL: Final = 2.0**63
# Between these orjson and json spell floats alike: 0.00001 is 1e-05 for json.
_LEAST_ALIKE, _MOST_ALIKE = 1e-4, 1e16
_CONTAINERS: Final = frozenset({dict, list})
_COLONS: Final = (b'":', b" :", b"\t:", b"\n:", b"\r:")


def parse_quickly(body: bytes, most_levels: int, first_line: int = 1) -> object:
    """As `bodies.parse`: the same value for the same text, and the same refusal."""
    with suppress(orjson.JSONDecodeError):
        value = orjson.loads(body)
        if _members(value, most_levels) == _most_members(body):
            return value
        del value
    return parse(body, most_levels, first_line)


def _most_members(body: bytes) -> int:
    """No text has more names in its objects than colons behind a quote or white space; some stand inside texts."""
    return sum(body.count(colon) for colon in _COLONS)


def _members(value: Any, most_levels: int) -> int | None:  # noqa: ANN401  # any JSON value
    """The names in all objects together; None where a number is doubtful, or something stands too deep."""
    members = 0
    # One level more, for the list around the value.
    level: list[Any] = [[value]]
    for _ in range(most_levels + 1):
        inner: list[Any] = []
        for container in level:
            members += len(container) if type(container) is dict else 0
            for found in container.values() if type(container) is dict else container:
                kind = type(found)
                if kind in _CONTAINERS:
                    inner.append(found)
                elif kind is float and not -_DOUBTFUL < found < _DOUBTFUL:
                    return None
        level = inner
        if not level:
            return members
    return None


def write_sorted(value: Mapping[str, Any]) -> str:
    """As `encode_sorted`, byte for byte: what was stored and is compared with was written by that."""
    if _is_spelt_alike(value):
        with suppress(orjson.JSONEncodeError):
            return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode()
    return encode_sorted(value)


def _is_spelt_alike(value: Mapping[str, Any]) -> bool:
    left: list[Any] = [value]
    for container in left:
        for found in container.values() if type(container) is dict else container:
            kind = type(found)
            if kind in _CONTAINERS:
                left.append(found)
            elif kind is float and found and not _LEAST_ALIKE <= abs(found) < _MOST_ALIKE:
                return False
    return True
