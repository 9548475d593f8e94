"""Lists as iterators: rows come one by one, and the next page is asked for when the last one is used up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from kvquote_client.errors import BadAnswer
from kvquote_client.reading import Answer, read
from kvquote_client.sending import query_words

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from kvquote_client.transport import Transport

Row = TypeVar("Row", bound=Answer)


@dataclass(frozen=True)
class Page(Generic[Row]):
    """One page; each revision is None in lists that are of something else."""

    items: tuple[Row, ...]
    next_cursor: str | None
    catalog_revision: int | None
    calibration_revision: int | None


class Pages(Generic[Row]):
    """All rows of a list, over its pages. Nothing is asked before the first row is wanted; each loop asks afresh.

    `limit` among the filters is how many rows a page has, not how many come; `kind` is the class of the rows.
    """

    def __init__(self, transport: Transport, path: str, filters: Mapping[str, Any], kind: type[Row]) -> None:
        self._transport = transport
        self._path = path
        self._filters = query_words(filters)
        self.kind = kind

    def __iter__(self) -> Iterator[Row]:
        for page in self.pages():
            yield from page.items

    def pages(self) -> Iterator[Page[Row]]:
        """Page by page, for whoever wants the revision or the cursor to go on from another day."""
        cursor, seen = self._filters.get("cursor"), set[str]()
        while True:
            page = self._page(cursor)
            yield page
            cursor = page.next_cursor
            if cursor is None:
                return
            if cursor in seen:
                raise BadAnswer(f"{self._path} leads in a circle: a cursor came twice")
            seen.add(cursor)

    def _page(self, after: str | None) -> Page[Row]:
        asked = {**self._filters, **({"cursor": after} if after else {})}
        body = self._transport.request("GET", self._path, params=asked).body
        if not isinstance(body, dict) or not isinstance(items := body.get("items"), list):
            raise BadAnswer(f"{self._path} answered no list: is {self._transport.url} a kvquote service?")
        cursor = body.get("next_cursor")
        if cursor is not None and not isinstance(cursor, str):
            raise BadAnswer(f"{self._path} names {cursor!r:.60} as the next page")
        rows = tuple([read(self.kind, item) for item in items])
        return Page(rows, cursor, body.get("catalog_revision"), body.get("calibration_revision"))
