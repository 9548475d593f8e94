"""Rules of a catalog entry by release: topics are lists of them, oldest first, and the newest reached one holds."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, TypeVar

from service.domain.engines.versions import Release, parse

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_R = TypeVar("_R")
Dated = tuple[tuple[Release, _R], ...]


def dated(rows: Sequence[Mapping[str, Any]], make: Callable[[Mapping[str, Any]], _R]) -> Dated[_R]:
    """The rules of a topic, each with the release that it holds from."""
    return tuple((parse(row["since"]), make(row)) for row in rows)


def newest(rules: Dated[_R], release: Release) -> _R:
    """The newest rule that is not newer than the release; the oldest for releases before all of them."""
    held = [rule for since, rule in rules if since <= release]
    return held[-1] if held else rules[0][1]


def made(kind: type[_R], row: Mapping[str, Any], **given: Any) -> _R:  # noqa: ANN401  # as the fields' types
    """A rule from the facts of its own names; the others are its evidence and date."""
    names = {f.name for f in fields(kind)}  # type: ignore[arg-type]  # every rule is a dataclass
    return kind(**{name: value for name, value in row.items() if name in names} | given)
