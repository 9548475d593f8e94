"""What lists and entries of every kind have in common: how pages are asked for, and what stands around the rows."""

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from marshmallow import fields

from service.api import limits
from service.api.limits import Span
from service.api.paging import CURSOR_PATTERN
from service.api.schemas.answer_parts import AnswerSchema, rows, sentences, text, whole
from service.api.schemas.closed import Asked, ClosedSchema
from service.api.schemas.fields import (
    AskedField,
    Choice,
    Flag,
    ListOf,
    MisreadError,
    Moment,
    Name,
    Number,
    Properties,
    WholeNumber,
)
from service.api.tables import Format
from service.domain.errors import Fault
from service.storage.listing import Listing
from service.storage.names import fold

_DAMAGED: Final = "; null where something else damaged it."


class Cursor(AskedField):
    """What a page gave as next_cursor; whether it belongs to the question is seen when the page is made."""

    def read(self, value: object) -> str:
        """Refuses what no page gives out."""
        if type(value) is not str or not 0 < len(value) <= limits.CURSOR_CHARACTERS:
            raise MisreadError("must be a next_cursor as a page gave it")
        return value

    def described(self) -> Properties:
        """A string of base64."""
        return {"type": "string", "pattern": CURSOR_PATTERN}


class Filters(NamedTuple):
    """The names of a list's filters, each with the column it compares."""

    equal: Mapping[str, str]
    least: Mapping[str, str]
    most: Mapping[str, str]


class PageQuery(ClosedSchema):
    """What every list is asked with."""

    limit = WholeNumber(
        Span(1, limits.MOST_PAGE_ENTRIES),
        metadata={"description": f"Entries of a page. Default {limits.PAGE_ENTRIES}."},
    )
    cursor = Cursor(metadata={"description": "next_cursor of the page before, with the same filters."})
    format = Choice([*Format], metadata={"description": "Default: what Accept prefers, or json."})


class EntryQuery(ClosedSchema):
    """What one entry is asked with."""

    as_of = Moment(metadata={"description": "The entry as it was then. Default: now."})


class WriteQuery(ClosedSchema):
    """What a write may say beside its body."""

    overwrite_measured = Flag(
        metadata={"description": "true lets typed-in facts take the place of measured ones. Default false."}
    )


class CatalogQuery(PageQuery):
    """What a list of the catalog is asked with; subclasses add their filters, and say what each compares."""

    filters: ClassVar[Filters] = Filters({}, {}, {})

    q = Name(metadata={"description": "A part of any name an entry answers to, in any case; taken literally."})
    as_of = Moment(metadata={"description": "The list as it was then. Default: now."})

    def contradictions(self, asked: Asked) -> list[Fault]:
        """A range that holds nothing is a mistake, and not an empty list."""
        empty = [
            name
            for name, column in self.filters.least.items()
            for other, same in self.filters.most.items()
            if same == column and name in asked and other in asked and asked[name] > asked[other]
        ]
        return [Fault(f"/{name}", f"{name} is above max_{name.removeprefix('min_')}.") for name in empty]

    def listing(self, asked: Asked, limit: int, after: str) -> Listing:
        """The page as the storage is asked for it."""
        equal, least, most = (
            {column: asked[name] for name, column in names.items() if name in asked} for names in self.filters
        )
        text = fold(asked["q"]) if "q" in asked else None
        alternatives = {name: value if isinstance(value, list) else [value] for name, value in equal.items()}
        return Listing(limit, after, alternatives, least, most, text)


def one_of(about: str, example: str | None = None) -> ListOf:
    """A filter by equality: one value, or several with commas."""
    examples = {} if example is None else {"examples": [[example]]}
    return ListOf(Name(), metadata={"description": f"{about} Several values with commas.", **examples})


def yes_or_no(about: str) -> Flag:
    """A filter by a boolean."""
    return Flag(metadata={"description": about})


def bound(about: str, unit: str) -> Number:
    """A filter by a least or a greatest number of a unit of FILTER_SPANS; an entry without the value is in no range."""
    return Number(limits.FILTER_SPANS[unit], metadata={"description": about})


def ranges(*columns: str) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """The filters `min_…` and `max_…` of columns."""
    return {f"min_{name}": name for name in columns}, {f"max_{name}": name for name in columns}


def facts(about: str, *, null: bool = False) -> fields.Dict:
    """The facts of an entry, as its kind's schema has them."""
    return fields.Dict(required=True, allow_none=null, metadata={"description": about})


def names(about: str) -> fields.List[Any]:
    """A list of names, empty rather than null."""
    return fields.List(fields.String(), required=True, metadata={"description": about})


class Page(AnswerSchema):
    """A page of a list; subclasses add `items`."""

    next_cursor = text("Ask for the next page with it; null on the last one.", null=True)
    catalog_revision = whole("The catalog that the page was read from.")


class EntryRevision(AnswerSchema):
    """One state of an entry."""

    revision = whole("The catalog's revision that brought it.", least=1)
    made_at = fields.String(
        required=True, allow_none=True, metadata={"description": f"When{_DAMAGED}", "format": "date-time"}
    )
    action = text("created, changed or deleted.")
    author = text(f"Who: the name and public id of a token, or who loaded the files{_DAMAGED}", null=True)
    origin = text(f"Where from: api or files{_DAMAGED}", null=True)
    summary = text(f"The revision in a line{_DAMAGED}", null=True)
    changes = sentences("Each field that differs from the state before, as `field: old -> new`.")
    facts = facts("The entry then; null once deleted.", null=True)


class EntryHistory(Page):
    """A page of an entry's history, the newest first."""

    items = rows(EntryRevision(), "The states, the newest first.")


PAGE_QUERY = PageQuery.for_query()
ENTRY_QUERY = EntryQuery.for_query()
WRITE_QUERY = WriteQuery.for_query()
ENTRY_HISTORY = EntryHistory()
