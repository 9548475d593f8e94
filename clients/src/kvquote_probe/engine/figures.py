"""Numbers out of what an engine says: whole, finite and within what can be, or nothing at all."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

MOST_TOKENS = 2**31
"""The longest contexts and the largest pools stay three decimal places below."""

MOST_BYTES = 2**50
MOST_BLOCKS = 2**31
MOST_GPUS = 1024

_digits = re.compile(r"[0-9]{1,15}(?:\.0+)?").fullmatch
_decimal = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,20})?(?:[eE][-+]?[0-9]{1,2})?").fullmatch


def whole(given: object, most: int = MOST_TOKENS) -> int | None:
    """A whole number from 1 to `most`, also as a text of digits or a float without a fraction; else None."""
    if isinstance(given, str) and _digits(given):
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    if isinstance(given, float) and not given.is_integer():
        return None
    number = int(given)
    return number if 1 <= number <= most else None


def number(given: object, most: float = 1e12) -> float | None:
    """A number above 0 and up to `most`, also as a text; else None."""
    if isinstance(given, str) and _decimal(given):
        given = float(given)
    if isinstance(given, bool) or not isinstance(given, (int, float)):
        return None
    # NaN is neither, infinity is above; an integer may be larger than any float, so it is compared as it is.
    return float(given) if 0 < given <= most else None


def share(given: object) -> float | None:
    """A number above 0 and up to 1; else None."""
    return number(given, 1.0)


def flag(given: object) -> bool | None:
    """A truth value, also as Python prints it; else None."""
    if isinstance(given, bool):
        return given
    return {"true": True, "false": False}.get(given.lower()) if isinstance(given, str) else None


def gibibytes(given: object) -> int | None:
    """Bytes of a size in GiB; None for 0 too, which engines print where they do not know."""
    size = number(given, MOST_BYTES / 2**30)
    return None if size is None else round(size * 2**30) or None


def told(given: Mapping[str, Any]) -> dict[str, Any]:
    """Without the names that are null."""
    return {name: value for name, value in given.items() if value is not None}


_TYPES = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32"}


def number_format(given: object) -> str | None:
    """A number format's name as the service spells it; unknown ones as the engine does."""
    if not isinstance(given, str) or not re.fullmatch(r"[A-Za-z][\w.]{0,39}", given):
        return None
    name = given.lower().removeprefix("torch.").removesuffix("_marlin")
    return None if name == "none" else _TYPES.get(name, name)
