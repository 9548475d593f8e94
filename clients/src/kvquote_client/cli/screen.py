"""What a terminal can show: its width, its colours, its characters; and tables and bars drawn for it."""

from __future__ import annotations

import os
import shutil
import unicodedata
from typing import TYPE_CHECKING, Final, NamedTuple, TextIO

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_DRAWN: Final = "█▓▒░▚·■…×"
_ASCII: Final = dict(zip(_DRAWN, "#=%+~.*~x", strict=True))
_NARROWEST_BAR: Final = 20
_WIDEST_BAR: Final = 96


class Part(NamedTuple):
    """One part of a bar: how much of it, the character it is drawn with, and its colour as a terminal counts them."""

    amount: float
    glyph: str
    colour: int


class Screen(NamedTuple):
    """Where output goes. `columns` is None where nobody counts them: in a pipe or a file."""

    columns: int | None = None
    colours: bool = False
    unicode: bool = True

    @classmethod
    def of(cls, stream: TextIO, environ: Mapping[str, str] = os.environ) -> Screen:
        """What that stream can show; NO_COLOR is no-color.org's."""
        watched = stream.isatty()
        coloured = watched and not environ.get("NO_COLOR") and environ.get("TERM") != "dumb"
        columns = shutil.get_terminal_size().columns if watched else None
        return cls(columns, coloured, _can_write(stream.encoding))

    def text(self, words: str) -> str:
        """Words as they may be printed: what comes from elsewhere moves no cursor, and ASCII stays ASCII."""
        clean = words if words.isprintable() else "".join(char if char.isprintable() else "?" for char in words)
        if self.unicode or clean.isascii():
            return clean
        return "".join(_ASCII.get(char, char) for char in clean).encode("ascii", "replace").decode()

    def painted(self, words: str, colour: int) -> str:
        """The same in a colour, where there are colours."""
        return f"\x1b[{colour}m{words}\x1b[0m" if self.colours and words else words

    def bar(self, parts: Sequence[Part]) -> str:
        """One line in which each part has its share; whatever is more than nothing is seen."""
        width = min(_WIDEST_BAR, max(_NARROWEST_BAR, (self.columns or 80) - 4))
        cells = shares([part.amount for part in parts], width)
        drawn = zip(parts, cells, strict=True)
        return "".join(self.painted(self.text(part.glyph) * count, part.colour) for part, count in drawn)

    def table(self, header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
        """Lines of a table, figures to the right; columns that a terminal has no room for are left out at the end."""
        lines = [list(header), *([self.text(cell) for cell in row] for row in rows)]
        widths = [max(map(_width, column)) for column in zip(*lines, strict=True)]
        shown = self._fitting(widths)
        right = [all(_is_figure(line[at]) for line in lines[1:]) for at in range(shown)]
        columns = list(zip(widths[:shown], right, strict=True))
        drawn = [_line(line, columns) for line in lines]
        drawn.insert(1, _line(["-" * width for width in widths], columns))
        left_out = len(header) - shown
        return [*drawn, f"({left_out} more columns with --csv or a wider terminal)"] if left_out else drawn

    def _fitting(self, widths: Sequence[int]) -> int:
        used = 0
        for number, width in enumerate(widths):
            used += width + 2
            if self.columns is not None and used - 2 > self.columns and number:
                return number
        return len(widths)


def shares(amounts: Sequence[float], width: int) -> list[int]:
    """`width` cells shared out by amount, the largest remainders rounded up; nothing that is there gets none."""
    total = sum(amounts)
    if not total > 0:
        return [0] * len(amounts)
    exact = [amount * width / total for amount in amounts]
    cells = [max(int(share), amount > 0) for share, amount in zip(exact, amounts, strict=True)]
    by_remainder = sorted(range(len(cells)), key=lambda at: cells[at] - exact[at])
    for at in by_remainder[: max(0, width - sum(cells))]:
        cells[at] += 1
    while sum(cells) > width:
        cells[max(range(len(cells)), key=cells.__getitem__)] -= 1
    return cells


def _line(cells: Sequence[str], columns: Sequence[tuple[int, bool]]) -> str:
    padded = (_padded(cell, width, right=right) for cell, (width, right) in zip(cells, columns, strict=False))
    return "  ".join(padded).rstrip()


def _padded(cell: str, width: int, *, right: bool) -> str:
    space = " " * (width - _width(cell))
    return space + cell if right else cell + space


def _width(words: str) -> int:
    """Columns that words take: East Asian characters two, marks on others none."""
    if words.isascii():
        return len(words)
    return sum((unicodedata.east_asian_width(char) in "WF") + (not unicodedata.combining(char)) for char in words)


def _is_figure(cell: str) -> bool:
    return cell in {"", "-"} or cell[cell[0] in "+-" :][:1].isdigit()


def _can_write(encoding: str | None) -> bool:
    try:
        _DRAWN.encode(encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
