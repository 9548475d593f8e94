"""From a JSON answer to a frozen value, tolerant of what it does not know.

A service that is newer says more: `raw` keeps all of it. One that is older says less: what it does not say is None, an
empty tuple, or an object that says nothing. Only an answer without the names that it is about is refused, as another
service's.
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
    return _made(kind, value, **more)


def _made(kind: type[T], said: Mapping[str, Any], **more: object) -> T:
    values: dict[str, Any] = {"raw": said, **more}
    plan = _PLANS.get(kind) or _PLANS.setdefault(kind, _planned(kind))
    for name, convert, absent in plan:
        value = said.get(name)
        if value is None:
            values.setdefault(name, absent)
        else:
            values[name] = value if convert is None else convert(value)
    made = object.__new__(kind)
    # A frozen class's own __init__ sets its fields one by one, at three times the cost.
    made.__dict__.update(values)
    return made


def _planned(kind: type[Answer]) -> Plan:
    """Each field's name, what makes its value, and what stands where nothing was said."""
    declared = [(each.name, str(each.type)) for each in fields(kind) if each.name != "raw"]
    names = _names(kind)
    return tuple([(name, _convert(annotation, names), _absent(annotation, names)) for name, annotation in declared])


def parts(kind: type[Answer]) -> dict[str, type[Answer]]:
    """The fields that hold an object of their own, and of which kind."""
    names = _names(kind)
    found = {each.name: _kind(str(each.type).removesuffix(" | None"), names) for each in fields(kind)}
    return {name: part for name, part in found.items() if part is not None}


def _names(kind: type[Answer]) -> Mapping[str, Any]:
    """What the names of a class's declarations mean: its bases were declared in modules of their own."""
    modules = [sys.modules[base.__module__] for base in reversed(kind.__mro__)]
    return {name: value for module in modules for name, value in vars(module).items()}


def _convert(annotation: str, names: Mapping[str, Any]) -> Convert | None:
    """What makes a field's value, from how it is declared; None where it is taken as it came."""
    bare = annotation.removesuffix(" | None")
    if not bare.startswith("tuple["):
        kind = _kind(bare, names)
        return None if kind is None else partial(read, kind)
    inner = _kind(bare.removeprefix("tuple[").removesuffix(", ...]"), names)
    return partial(_tuple, kind=inner)


def _absent(annotation: str, names: Mapping[str, Any]) -> object:
    """What stands where nothing was said: None, no items, or an object that says nothing."""
    if annotation.endswith(" | None"):
        return None
    kind = _kind(annotation, names)
    return () if annotation.startswith("tuple[") else None if kind is None else _made(kind, {})


def _kind(annotation: str, names: Mapping[str, Any]) -> type[Answer] | None:
    found = names.get(annotation)
    return found if isinstance(found, type) and issubclass(found, Answer) else None


def _tuple(values: object, kind: type[Answer] | None) -> tuple[Any, ...]:
    if not isinstance(values, list):
        raise BadAnswer(f"what answered is no kvquote service: {values!r:.60} where a list belongs")
    return tuple(values) if kind is None else tuple([read(kind, value) for value in values])
