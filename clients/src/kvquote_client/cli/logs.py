"""The command `logs`: an engine's start-up log beside what would have been quoted."""

from __future__ import annotations

import codecs
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kvquote_client.cli.codes import REFUSED
from kvquote_client.cli.options import Parser, add_table, given
from kvquote_client.cli.output import complain
from kvquote_client.errors import InvalidInput
from kvquote_client.question import Question

if TYPE_CHECKING:
    import argparse

    from kvquote_client.cli.output import Output
    from kvquote_client.client import Client

# The service takes 10 MiB; a start is far shorter, and what an engine says later is not looked at.
_LARGEST_BYTES: Final = 10 * 1024 * 1024
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def add_logs(parser: Parser) -> None:
    """`kvquote logs`."""
    parser.add_argument("file", metavar="FILE|-", help="the log; - is standard input")
    parser.add_argument("--why", action="store_true", help="show all that the log says, and where the quote is from")
    add_table(parser, "the question, for what the log does not say", Question)
    parser.set_defaults(run=logs)


def logs(asked: argparse.Namespace, client: Client, output: Output) -> int:
    """What the log says, what would have been quoted, and by how much they differ; 3 where the quote is refused."""
    from kvquote_client.cli.logs_text import faults_in_a_line, lines, rows

    answer = client.logs(_text(asked.file), **given(asked, Question))
    output.tell(answer.raw, rows(answer), lines(answer, output.screen, why=asked.why))
    if answer.unquoted is None:
        return 0
    # What the log says is told; what it was to be put beside is not there, and a pipeline has to hear of it.
    complain(f"no quote to put beside it: {faults_in_a_line(answer.unquoted)}")
    return REFUSED


def _start_of(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LARGEST_BYTES + 1)


def _start_of_input() -> bytes:
    if sys.stdin is None:  # whoever started this has closed it
        raise OSError("standard input is closed")
    return sys.stdin.buffer.read(_LARGEST_BYTES + 1)


def _text(name: str) -> str:
    """A log as it lies there: whatever is not of its charset is shown as such, and cannot be what an engine says."""
    try:
        content = _start_of_input() if name == "-" else _start_of(Path(name))
    except OSError as error:
        raise InvalidInput(f"{name!r} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise InvalidInput(f"{name!r} is no file's name: {error}") from error
    if len(content) > _LARGEST_BYTES:
        raise InvalidInput(f"{name} is larger than 10 MiB; its start is enough: head -c 5000000 … | kvquote logs -")
    charset = next((charset for mark, charset in _MARKS if content.startswith(mark)), "utf-8")
    return content.decode(charset, "replace")
