"""From a JSON answer to a frozen value, tolerant of what it does not know.

A service that is newer says more: `raw` keeps all of it. One that is older says less: what it does not say is None, an
empty tuple, or an object that says nothing. An answer without the names that it is about, or with a text where the
contract has a number, is refused as another service's.
"""

from __future__ import annotations

import sys
from dataclasses import Field, dataclass, field, fields
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from kvquote_client.errors import BadAnswer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Types = tuple[type, ...]
    Convert = Callable[[Any], Any]
    Plan = tuple[tuple[str, Types, Convert | None, object], ...]

T = TypeVar("T", bound="Answer")
# What a declaration may be in JSON; whatever else is named is an object. A whole number may be written as 4.0.
_TYPES: Final[dict[str, Types]] = {"int": (int, float), "float": (int, float), "str": (str,), "bool": (bool,)}
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


def parts(kind: type[Answer]) -> dict[str, type[Answer]]:
    """The fields that hold an object of their own, and of which kind."""
    names = _names(kind)
    found = {each.name: _kind(_bare(each), names) for each in fields(kind)}
    return {name: part for name, part in found.items() if part is not None}


def _made(kind: type[T], said: Mapping[str, Any], **more: object) -> T:
    values: dict[str, Any] = {"raw": said, **more}
    plan = _PLANS.get(kind) or _PLANS.setdefault(kind, _planned(kind))
    for name, types, convert, absent in plan:
        value = said.get(name)
        if value is None:
            values.setdefault(name, absent)
        elif not isinstance(value, types):
            raise BadAnswer(f"what answered is no kvquote service: {name} is {value!r:.60}")
        else:
            values[name] = value if convert is None else convert(value)
    made = object.__new__(kind)
    # A frozen class's own __init__ sets its fields one by one, at three times the cost.
    made.__dict__.update(values)
    return made


def _planned(kind: type[Answer]) -> Plan:
    """Each field's name, the JSON it may be, what makes its value, and what stands where nothing was said."""
    names = _names(kind)
    return tuple([(each.name, *_how(each, names)) for each in fields(kind) if each.name != "raw"])


def _how(declared: Field[Any], names: Mapping[str, Any]) -> tuple[Types, Convert | None, object]:
    bare = _bare(declared)
    optional = bare != declared.type
    kind = _kind(bare, names)
    if kind is not None:
        return (dict,), partial(read, kind), None if optional else _made(kind, {})
    if not bare.startswith("tuple["):
        return _TYPES.get(bare, (dict,)), None, None
    inner = bare.removeprefix("tuple[").removesuffix(", ...]")
    convert = partial(_tuple, kind=_kind(inner, names), types=_TYPES.get(inner, (object,)))
    return (list,), convert, None if optional else ()


def _tuple(values: list[Any], kind: type[Answer] | None, types: Types) -> tuple[Any, ...]:
    if kind is not None:
        return tuple([read(kind, value) for value in values])
    odd = next((value for value in values if not isinstance(value, types)), None)
    if odd is not None:
        raise BadAnswer(f"what answered is no kvquote service: a list holds {odd!r:.60}")
    return tuple(values)


def _bare(declared: Field[Any]) -> str:
    return str(declared.type).removesuffix(" | None")


def _kind(annotation: str, names: Mapping[str, Any]) -> type[Answer] | None:
    found = names.get(annotation)
    return found if isinstance(found, type) and issubclass(found, Answer) else None


def _names(kind: type[Answer]) -> Mapping[str, Any]:
    """What the names of a class's declarations mean: its bases were declared in modules of their own."""
    modules = [sys.modules[base.__module__] for base in reversed(kind.__mro__)]
    return {name: value for module in modules for name, value in vars(module).items()}
