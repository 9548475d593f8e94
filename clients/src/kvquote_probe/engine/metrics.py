"""Samples of a Prometheus page, as much of the text format as engines use.

prometheus-client has a parser; the probe depends on requests alone, and a page that was cut off or garbled must give
fewer samples here, never an error and never half a number.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

_MOST_LINE = 1 << 16
# No blanks between labels: no engine writes any, and two ways to read one would be tried a square of times.
_sample = re.compile(
    r'([A-Za-z_:][\w:]*)(?:\{((?:[A-Za-z_]\w*="(?:[^"\\\n]|\\.)*",?)*)\})?[ \t]+(\S+)(?:[ \t]+-?\d+)?[ \t]*'
).fullmatch
_label = re.compile(r'([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"')
_escaped = re.compile(r"\\(.)")
_VALUES = {"n": "\n"}


class Sample(NamedTuple):
    """One line: a name, its labels and a finite value."""

    name: str
    labels: Mapping[str, str]
    value: float


def samples(text: str, wanted: Iterable[str]) -> list[Sample]:
    """The samples of the names that are wanted, in their order on the page."""
    names = tuple(wanted)
    return [found for line in _lines(text) if line.startswith(names) and (found := _read(line)) and found.name in names]


def _lines(text: str) -> Iterator[str]:
    """Whole lines: the last one counts only if it was ended, since a value that is cut off still is a number."""
    ended = text[: text.rfind("\n") + 1]
    return (line for line in ended.split("\n") if line and not line.startswith("#") and len(line) <= _MOST_LINE)


def _read(line: str) -> Sample | None:
    found = _sample(line.rstrip("\r"))
    if found is None:
        return None
    try:
        value = float(found[3])
    except ValueError:
        return None
    if not math.isfinite(value):
        return None
    return Sample(found[1], {name: _plain(text) for name, text in _label.findall(found[2] or "")}, value)


def _plain(text: str) -> str:
    return _escaped.sub(lambda found: _VALUES.get(found[1], found[1]), text)
