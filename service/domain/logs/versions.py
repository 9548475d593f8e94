"""Releases as numbers, as far as a rule about them goes."""

from __future__ import annotations

import re

_NUMBERS = re.compile(r"v?(\d{1,6})(?:\.(\d{1,6}))?(?:\.(\d{1,6}))?", re.ASCII)


def before(version: str | None, limit: str) -> bool | None:
    """Whether a release is older than another; None where it is not known. Builds on the way to one count as it."""
    numbers = _numbers(version or "")
    return None if numbers is None else numbers < (_numbers(limit) or ())


def _numbers(text: str) -> tuple[int, ...] | None:
    found = _NUMBERS.match(text)
    return None if found is None else tuple(int(part or 0) for part in found.groups())
