"""The lines of a long text that may say something, found without looking at each.

Nearly all lines of a log say nothing of its engine's start, and lines can be very short: what takes a microsecond each
takes seconds for ten mebibytes. A text is looked through in blocks of whole lines for what every line of interest has
in it, and only those lines are taken apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from .lines import ANSI, LONGEST

_ESCAPED = "\\u00"
_PARTS = (" stdout P ", " stderr P ")


Sifting = tuple[int, str, "tuple[str, ...] | None"]
"""A line with its number, and what of the texts looked for it may hold; None where nobody looked."""


class Numbered:
    """Lines with their numbers; `count` is how many there have been."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = lines
        self.count = 0

    def __iter__(self) -> Iterator[Sifting]:
        for line in self._lines:
            self.count += 1
            yield self.count, line, None


class Sifted:
    """Lines with their numbers, of a text in pieces; without those that cannot say anything.

    `joins` says whether a line before was only a part of one. `count` is how many lines there have been.
    """

    def __init__(self, pieces: Iterable[str], hints: Iterable[str], joins: Callable[[], bool]) -> None:
        self._pieces = pieces
        self._hints = {hint: hint for hint in hints}
        self._packed = {text: hint for hint in self._hints for text in (hint, hint.replace('"', '\\"'))}
        """How hints stand in JSON, with the hint itself, in the same order."""
        self._joins = joins
        self.count = 0

    def __iter__(self) -> Iterator[Sifting]:
        for block in _blocks(self._pieces):
            first = self.count + 1
            self.count += block.count("\n") + (not block.endswith("\n"))
            for begin, line, hints in self._lines(block):
                yield first + begin, line, hints

    def _lines(self, block: str) -> Iterator[Sifting]:
        """Each line with how many stand before it in the block."""
        is_json = block.startswith("{") or "\n{" in block
        if self._joins() or _is_in_parts(block, is_json=is_json):
            return _all_of(block)
        looked_for = self._packed if is_json else self._hints
        hints = {text: hint for text, hint in looked_for.items() if text in block}
        if "\x1b" in block or "#033" in block:
            plain = ANSI.sub("", block)
            found = hints or any(hint in plain for hint in self._hints)
            return _all_of(block) if found else iter(())
        return _those_with(block, hints)


def _blocks(pieces: Iterable[str]) -> Iterator[str]:
    """Whole lines, many at a time; of a very long one no more than its reader looks at."""
    held: list[str] = []
    size = 0
    for piece in pieces:
        end = piece.rfind("\n") + 1
        if end:
            yield "".join((*held, piece[:end]))
            held, size = [], 0
        if end < len(piece) and size < LONGEST:
            held.append(piece[end:])
            size += len(piece) - end
    if held:
        yield "".join(held)


def _is_in_parts(block: str, *, is_json: bool) -> bool:
    """Whether lines of the block may have to be put together, or may hold what is looked for in other signs."""
    if is_json and (_ESCAPED in block or block.count('"stream"') > block.count('\\n"')):
        return True
    return any(part in block for part in _PARTS)


def _all_of(block: str) -> Iterator[Sifting]:
    return ((number, line, None) for number, line in enumerate(_split(block)))


def _split(block: str) -> list[str]:
    lines = [f"{line}\n" for line in block.split("\n")]
    last = lines.pop()
    return lines if last == "\n" else [*lines, last[:-1]]


def _those_with(block: str, hints: Mapping[str, str]) -> Iterator[Sifting]:
    begins: dict[int, list[str]] = {}
    for text, hint in hints.items():
        at = block.find(text)
        while at >= 0:
            begins.setdefault(block.rfind("\n", 0, at) + 1, []).append(hint)
            end = block.find("\n", at)
            at = block.find(text, end) if end >= 0 else -1
    before = counted = 0
    for begin in sorted(begins):
        before += block.count("\n", counted, begin)
        counted = begin
        end = block.find("\n", begin)
        yield before, block[begin:] if end < 0 else block[begin : end + 1], tuple(begins[begin])
