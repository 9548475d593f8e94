"""Pages of a list: filtered and in the order of ids, from where the last page ended (keyset), never by counting."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from service.domain.catalog import CatalogKind
from service.domain.catalog_rows import FILTERS

Values = tuple[Any, ...]
_NONE: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Listing:
    """What a page is asked for: columns of FILTERS equal to one of several values, at least and at most a number.

    `text` is folded, and a part of any name of an entry. A column without a value is neither equal nor in a range.
    """

    limit: int
    after: str = ""
    equal: Mapping[str, Collection[Any]] = field(default_factory=lambda: _NONE)
    least: Mapping[str, float] = field(default_factory=lambda: _NONE)
    most: Mapping[str, float] = field(default_factory=lambda: _NONE)
    text: str | None = None


def page_ids(
    kind: CatalogKind,
    ids: Sequence[str],
    rows: Mapping[str, Values],
    named: Callable[[str], Collection[str]],
    asked: Listing,
) -> tuple[list[str], bool]:
    """The ids of a page out of sorted `ids`, and whether another page follows.

    `rows` holds the values of FILTERS of each id; `named` gives the ids that have a text in one of their names.
    """
    # By index: a slice of a tuple of 10^5 ids would copy what no page shows.
    rest = (ids[at] for at in range(bisect_right(ids, asked.after), len(ids)))
    if asked.text is not None:
        among = named(asked.text)
        rest = (entry_id for entry_id in rest if entry_id in among)
    matches = _matcher(kind, asked)
    if matches is not None:
        rest = (entry_id for entry_id in rest if matches(rows[entry_id]))
    found = list(islice(rest, asked.limit + 1))
    return found[: asked.limit], len(found) > asked.limit


def _matcher(kind: CatalogKind, asked: Listing) -> Callable[[Values], bool] | None:
    """One function for all conditions, None where there are none."""
    column = {name: at for at, name in enumerate(FILTERS[kind])}
    equal = [(column[name], frozenset(values)) for name, values in asked.equal.items()]
    least = [(column[name], value) for name, value in asked.least.items()]
    most = [(column[name], value) for name, value in asked.most.items()]
    if not (equal or least or most):
        return None

    def matches(row: Values) -> bool:
        return (
            all(row[at] in values for at, values in equal)
            and all(row[at] is not None and row[at] >= value for at, value in least)
            and all(row[at] is not None and row[at] <= value for at, value in most)
        )

    return matches
