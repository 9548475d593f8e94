"""The commands that list: `models`, `gpus`, `instances`, `dtypes`, `engines`, `calibrations`, `accuracy`."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final

from kvquote_client.cli.listing import LISTINGS, entry_lines
from kvquote_client.cli.options import Parser, add_table, count, given
from kvquote_client.errors import InvalidInput

if TYPE_CHECKING:
    import argparse

    from kvquote_client.cli.output import Output
    from kvquote_client.client import Client

_LARGEST_PAGE: Final = 500


def add_listing(name: str, parser: Parser) -> None:
    """`kvquote gpus` and its like."""
    if LISTINGS[name].has_entries:
        parser.add_argument("name", nargs="?", metavar="NAME", help="show this one alone; id, alias or hub id")
    parser.add_argument("--limit", type=count, metavar="N", help="show so many at most")
    add_table(parser, "filters; several values with commas", LISTINGS[name].filters, leave_out=("limit", "cursor"))
    parser.set_defaults(run=partial(browse, name), **({} if LISTINGS[name].has_entries else {"name": None}))


def browse(resource: str, asked: argparse.Namespace, client: Client, output: Output) -> int:
    """Show one entry, or those that the filters leave."""
    if asked.name is not None:
        return _entry(resource, asked, client, output)
    filters = given(asked, LISTINGS[resource].filters)
    limit = filters.pop("limit", None)
    found = getattr(client, resource).list(**filters, limit=min(limit or _LARGEST_PAGE, _LARGEST_PAGE))
    rows = [row.raw for row in islice(found, limit)]
    output.tell({"items": rows}, rows, LISTINGS[resource].lines(rows, output.screen), found.kind)
    return 0


def _entry(resource: str, asked: argparse.Namespace, client: Client, output: Output) -> int:
    filters = given(asked, LISTINGS[resource].filters)
    as_of = filters.pop("as_of", None)
    if filters:
        raise InvalidInput(f"{asked.name!r} alone is shown, so there is nothing to filter by {', '.join(filters)}")
    entry = getattr(client, resource).get(asked.name, as_of=as_of).raw
    flat = {name: value for name, value in entry.items() if not isinstance(value, (dict, list))}
    output.tell(entry, [flat], entry_lines(entry, output.screen))
    return 0
