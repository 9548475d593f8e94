"""Names that a command sets and a question gives besides: the same value in whatever spelling, or a contradiction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from service.domain.commands.meaning import POINTER
from service.domain.errors import Fault, ValidationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.domain.commands.meaning import Understood
    from service.domain.question import Catalog

_FORMATS = frozenset({"weight_dtype", "kv_dtype"})


def check_agreement(found: Understood, beside: Mapping[str, Any], catalog: Catalog) -> None:
    """Raise ValidationError at both for every name with two values."""
    faults = [
        fault
        for name, value in found.settings.items()
        if name in beside and not _alike(name, beside[name], value, catalog)
        for fault in _contradiction(name, beside[name], value, found.said_by[name])
    ]
    if faults:
        raise ValidationError(*faults)


def _alike(name: str, given: Any, said: Any, catalog: Catalog) -> bool:  # noqa: ANN401
    if given == said:
        return True
    if name in _FORMATS:
        return _canonical(name, given, catalog) == _canonical(name, said, catalog)
    if name == "engine_version":
        return str(given).removeprefix("v") == str(said).removeprefix("v")
    return False


def _canonical(name: str, value: str, catalog: Catalog) -> str:
    """The own names of one format, or of a pair."""
    return "/".join(part if part == "auto" else catalog.format(part, f"/{name}").name for part in value.split("/"))


def _contradiction(name: str, given: Any, said: Any, flag: str) -> tuple[Fault, Fault]:  # noqa: ANN401
    detail = f"{name} is {given!r}, and {flag} of the command says {said!r}: give one of them."
    return Fault(f"/{name}", detail), Fault(POINTER, detail)
