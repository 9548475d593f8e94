"""From a JSON answer to a frozen value, tolerant of what it does not know.

A service that is newer says more: `raw` keeps all of it. One that is older says less: what it does not say is None, or
an empty tuple. Only an answer without the names that its question is about is refused, as another service's.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from kvquote_client.errors import BadAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Convert = Callable[[Any], Any]
    Plan = tuple[tuple[str, Convert | None, object], ...]

T = TypeVar("T", bound="Answer")
# Made when the first answer of a kind is read: most programs read two kinds of the thirty.
_PLANS: dict[type[Answer], Plan] = {}


@dataclass(frozen=True)
class Answer:
    """A JSON object of an answer; `raw` is the whole of it, as it came."""

    essential: ClassVar[tuple[str, ...]] = ()

    raw: Mapping[str, Any] = field(repr=False, compare=False)


def read(kind: type[T], value: object, **more: object) -> T:
    """The value of that kind that a JSON object says; `more` are fields that came another way.

    Raises:
        BadAnswer: it is no object, or one that is about something else.
    """
    if not isinstance(value, dict) or any(value.get(name) is None for name in kind.essential):
        missing = " and ".join(kind.essential)
        raise BadAnswer(f"what answered is no kvquote service, or another path of it: no {missing or kind.__name__}")
    read_fields: dict[str, Any] = {"raw": value, **more}
    plan = _PLANS.get(kind) or _PLANS.setdefault(kind, _planned(kind))
    for name, convert, absent in plan:
        said = value.get(name)
        if said is None:
            read_fields.setdefault(name, absent)
        else:
            read_fields[name] = said if convert is None else convert(said)
    made = object.__new__(kind)
    # A frozen class's own __init__ sets its fields one by one, at three times the cost.
    made.__dict__.update(read_fields)
    return made


def _planned(kind: type[Answer]) -> Plan:
    """Each field's name, what makes its value, and what stands where nothing was said."""
    declared = [(each.name, str(each.type)) for each in fields(kind) if each.name != "raw"]
    names = vars(sys.modules[kind.__module__])
    return tuple([(name, _convert(annotation, names), _absent(annotation)) for name, annotation in declared])


def _convert(annotation: str, names: Mapping[str, Any]) -> Convert | None:
    """What makes a field's value, from how it is declared; None where it is taken as it came."""
    bare = annotation.removesuffix(" | None")
    inner = bare.removeprefix("tuple[").removesuffix(", ...]")
    found = names.get(inner)
    kind = found if isinstance(found, type) and issubclass(found, Answer) else None
    if inner == bare:
        return None if kind is None else partial(read, kind)
    return _tuple if kind is None else partial(_tuple, kind=kind)


def _tuple(values: object, kind: type[Answer] | None = None) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise BadAnswer(f"what answered is no kvquote service: {values!r:.60} where a list belongs")
    return tuple(values) if kind is None else tuple([read(kind, value) for value in values])


def _absent(annotation: str) -> object:
    return () if annotation.startswith("tuple") and "None" not in annotation else None
