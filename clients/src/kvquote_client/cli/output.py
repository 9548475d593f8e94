"""Where a command's answer goes, and in which form."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from kvquote_client.cli.screen import Screen

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kvquote_client.reading import Answer


class Output(NamedTuple):
    """Standard output; `form` is text, json or csv."""

    screen: Screen
    form: str

    @classmethod
    def of(cls, form: str) -> Output:
        """Standard output as it is now."""
        return cls(Screen.of(sys.stdout), form)

    def tell(
        self,
        document: object,
        rows: Sequence[Mapping[str, Any]],
        text: Iterable[str],
        kind: type[Answer] | None = None,
    ) -> None:
        """Write the form that was asked for: the document as it came, its flat rows, or the lines for a person.

        `kind` is the class of the rows, whose names are the header of a list without any.
        """
        if self.form == "json":
            self.tell_json(document)
        elif self.form == "csv":
            from kvquote_client.cli.rows import columns, csv_lines

            self.write(csv_lines(rows, columns(kind) if kind else ()))
        else:
            self.write(text)

    def tell_json(self, document: object) -> None:
        """Write a document; what would move a terminal's cursor is escaped, as JSON allows for any character."""
        text = json.dumps(document, indent=2, ensure_ascii=not self.screen.unicode)
        lines = text.split("\n")
        self.write(line if line.isprintable() else "".join(map(_printable, line)) for line in lines)

    @staticmethod
    def write(lines: Iterable[str]) -> None:
        """Print lines, one by one."""
        for line in lines:
            print(line)


def complain(words: str) -> None:
    """Say on standard error why there is no answer, or not all of it."""
    screen = Screen.of(sys.stderr)
    for number, line in enumerate(words.splitlines()):
        print(screen.text(line if number else f"kvquote: {line}"), file=sys.stderr)


def _printable(char: str) -> str:
    return char if char.isprintable() else json.dumps(char)[1:-1]
