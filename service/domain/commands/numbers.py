"""Numbers as people write them for engines."""

from __future__ import annotations

import re
from decimal import Decimal

_HUMAN = re.compile(r"(\d{1,18}(?:\.\d{1,9})?)([kmgt])?", re.IGNORECASE | re.ASCII)
_POWERS = {"k": 1, "m": 2, "g": 3, "t": 4}


def human_count(text: str) -> int | None:
    """A whole number with a suffix as vLLM reads it: 32k is 32,000, 32K is 32,768, 25.6k is 25,600; None for others."""
    found = _HUMAN.fullmatch(text.strip())
    if found is None:
        return None
    number, suffix = found[1], found[2]
    if suffix is None or suffix.isupper():
        # Decimals go with the suffixes of powers of ten alone.
        return None if "." in number else int(number) * 1024 ** _POWERS.get((suffix or "").lower(), 0)
    size = Decimal(number) * 1000 ** _POWERS[suffix]
    return int(size)
