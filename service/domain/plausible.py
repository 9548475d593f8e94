"""Whether facts can be what they say: units are in their names, and no card reads 5e-324 bytes a second.

Schemas know names and types; what stands here is what every number of a unit and every text keep to, so that no later
quote divides by next to nothing or answers Infinity.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, Final, NamedTuple, TypeGuard

from service.domain.errors import Fault, pointer_step
from service.domain.units import MAX_EXACT_INTEGER

_TOKENS, _BYTES, _RATE = 2**31, 2**50, 1e18
_MEMORY_MARGIN: Final = 1.01
_LEAST_FRACTION, _GREATEST = 1e-30, 1e21
_NAME_CHARACTERS, _TEXT_CHARACTERS, _LIST_ENTRIES = 200, 8000, 4096
# Invisible or not text: controls, formats (zero-width, direction), surrogates, private use, unassigned, line ends.
_UNREADABLE: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_NAMES: Final = frozenset({"name", "hub_id", "aliases", "family", "architecture", "vendor", "gpu", "cloud"})


class _Span(NamedTuple):
    """The ending of a name, and the least and greatest number of that unit; 0 is left to the schemas."""

    ending: str
    least: float
    greatest: float


# The longer ending first: bytes per second are no bytes.
_SPANS: Final = (
    _Span("bytes_per_second", 1, _RATE),
    _Span("bits_per_second", 1, _RATE),
    _Span("flops_per_second", 1, _GREATEST),
    _Span("usd_per_hour", 1e-6, 1e6),
    _Span("_seconds", 1e-12, 1e6),
    _Span("_tokens", 1, _TOKENS),
    _Span("_bytes", 1, _BYTES),
)


def oversized(facts: Mapping[str, Any] | list[Any], pointer: str = "") -> Iterator[Fault]:
    """The lists that are longer than any model has layers; to look at before a schema compares their entries."""
    items = facts.items() if isinstance(facts, Mapping) else enumerate(facts)
    for name, value in items:
        inner = f"{pointer}/{pointer_step(str(name))}"
        if isinstance(value, list) and len(value) > _LIST_ENTRIES:
            yield Fault(inner, f"must have at most {_LIST_ENTRIES:,} entries.")
        elif isinstance(value, Mapping | list):
            yield from oversized(value, inner)


def implausible(facts: Mapping[str, Any]) -> Iterator[Fault]:
    """Everything in an entry's facts that cannot be, with its JSON pointer; nothing for facts that may stand."""
    for name, value in facts.items():
        # A published config has names of its own, which its reader checks.
        yield from _faults(value, f"/{pointer_step(name)}", name, "config" if name == "config" else name)
    memory = facts.get("memory")
    if isinstance(memory, Mapping):
        yield from _memory_faults(memory)


def _faults(value: object, pointer: str, name: str, unit: str) -> Iterator[Fault]:
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _text_faults(inner, pointer, "")
            yield from _faults(item, f"{pointer}/{pointer_step(inner)}", inner, _unit(inner, unit))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _faults(item, f"{pointer}/{index}", name, unit)
    elif isinstance(value, str):
        yield from _text_faults(value, pointer, "" if unit == "config" else name)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield from _number_faults(value, pointer, unit)


def _memory_faults(memory: Mapping[str, Any]) -> Iterator[Fault]:
    """What a process sees of a card is no more than the number on its box read as GiB; a range rises."""
    box, seen, span = (memory.get(name) for name in ("advertised_bytes", "visible_bytes", "visible_range_bytes"))
    # What is no size at all is named by the schema, and one beyond what is exact by its own number.
    most = box / 10**9 * 2**30 * _MEMORY_MARGIN if type(box) is int and 0 < box <= MAX_EXACT_INTEGER else None
    if most is not None and _number(seen) and seen > most:
        yield Fault("/memory/visible_bytes", f"is more than {box:,} B on the box can be, read as GiB and 1 %.")
    if isinstance(span, list) and all(map(_number, span)) and span != sorted(span):
        yield Fault("/memory/visible_range_bytes", "must rise: the least first.")


def _number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float)


def _unit(name: str, outer: str) -> str:
    """What a number under that name is measured in: its own name says it, or that of the object it stands in."""
    if outer == "config" or (_span(name) is None and _span(outer) is not None):
        return outer
    return name


def _number_faults(value: float, pointer: str, unit: str) -> Iterator[Fault]:
    span = _span(unit)
    if isinstance(value, int) and abs(value) > MAX_EXACT_INTEGER:
        yield Fault(pointer, f"is beyond {MAX_EXACT_INTEGER:,}, up to which every reader keeps an integer exact.")
    elif not isfinite(value) or abs(value) > _GREATEST or 0 < abs(value) < _LEAST_FRACTION:
        yield Fault(pointer, f"must be 0, or from {_LEAST_FRACTION:g} to {_GREATEST:g} in size.")
    elif span is not None and value != 0 and not span.least <= value <= span.greatest:
        yield Fault(pointer, f"must be from {span.least:,} to {span.greatest:,}.")


def _text_faults(text: str, pointer: str, name: str) -> Iterator[Fault]:
    is_name = name in _NAMES
    most = _NAME_CHARACTERS if is_name else _TEXT_CHARACTERS
    if len(text) > most:
        yield Fault(pointer, f"must have at most {most:,} characters.")
    elif unstorable := next((c for c in text if c == "\0" or "\ud800" <= c <= "\udfff"), None):
        yield Fault(pointer, f"holds the character U+{ord(unstorable):04X}, which no text has.")
    elif is_name and (hidden := next((c for c in text if unicodedata.category(c) in _UNREADABLE), None)):
        yield Fault(pointer, f"holds the character U+{ord(hidden):04X}, which nobody can see.")
    elif is_name and text != text.strip():
        yield Fault(pointer, "must not begin or end with a blank, which no question may.")


def _span(name: str) -> _Span | None:
    return next((span for span in _SPANS if name.endswith(span.ending)), None)
