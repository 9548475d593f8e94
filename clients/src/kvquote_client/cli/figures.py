"""Figures as a person reads them. Bytes are shown in the powers of 1,024 that engines print."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_STEP: Final = 1024
_TIMES: Final = (("s", 1.0), ("ms", 1e-3))
_MOST: Final = 1e300
_NONE: Final = "-"


def size(count: float | None) -> str:
    """`85029615043` as `79.19 GiB`; nothing known as a dash."""
    if count is None:
        return _NONE
    unit, value = 0, _bounded(count)
    while abs(value) >= _STEP and unit < len(_UNITS) - 1:
        value /= _STEP
        unit += 1
    return f"{value:,.2f} {_UNITS[unit]}" if unit else f"{value:,.0f} B"


def whole(count: float | None) -> str:
    """`448032` as `448,032`."""
    return _NONE if count is None else f"{_bounded(count):,.0f}"


def scaled(count: float | None, per: float) -> str:
    """A large figure in its unit: bandwidth in GB/s, peaks in TFLOP/s, parameters in billions."""
    return _NONE if count is None else f"{_bounded(count) / per:,.1f}".removesuffix(".0")


def share(part: float, whole_: float) -> str:
    """`18.9 %`."""
    return f"{100 * part / whole_:.1f} %" if whole_ else _NONE


def duration(seconds: float | None) -> str:
    """`27.2 ms`, `1.25 s`, `840 us`."""
    if seconds is None:
        return _NONE
    seconds = _bounded(seconds)
    unit, value = next(((unit, seconds / scale) for unit, scale in _TIMES if seconds >= scale), ("us", seconds * 1e6))
    digits = max(0, 3 - len(f"{value:.0f}"))
    return f"{value:,.{digits}f} {unit}"


def said(value: object) -> str:
    """A value of a question or a filter as it is written there."""
    if value is None:
        return _NONE
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(said, value))
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def _bounded(count: float) -> float:
    """Whole numbers of JSON have no end; what is shown of them is a float."""
    return float(min(max(count, -_MOST), _MOST))
