"""The lines that engines print, as templates with named places; each is compiled once to a pattern.

A template is what the release prints, with `{name:kind}` where it puts a value, `{:kind}` where it puts one that nobody
asks for, `[...]` around what some releases leave out, `<a|b>` for either, `{*}` for the rest of the line, and a
backslash before a sign that stands for itself. A blank stands for any number of blanks. No repetition stands beside
another of the same signs, so that no line takes more than linear time.

Engines say GB and MB and mean GiB and MiB: each of them divides by a power of two.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import NamedTuple, Union

Value = Union[int, float, str]  # noqa: UP007  # the probe runs this package on older Pythons too

_NUMBER = r"-?\d{1,9}(?:\.\d{1,6})?"
_COUNT = r"\d{1,3}(?:,\d{3}){1,4}|\d{1,15}"
_UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_KINDS = {
    "gib": _NUMBER,
    "mib": _NUMBER,
    "gib_of": _NUMBER,
    "size": _NUMBER + r" (?:[KMGT]i)?B",
    "bytes": r"\d{1,15}",
    "count": _COUNT,
    "number": _NUMBER,
    "word": r"[^\s,;()'\"{}\[\]]{1,200}",
    "quoted": r"[^'\"]{1,300}",
    "path": r"[^'\"()]{1,300}",
    "paths": r"[^()]{1,600}",
    "card": r"[\w+-]{1,100}",
    "named": r"[^,()=]{1,100}",
    "dict": r".+",
    "address": r"[\w.:\[\]-]{1,100}",
    "pad": r"[ \t]{0,80}",
    "compare": "[<>]",
    "listed": r"[\w,./-]{1,200}",
    "loading": r"[^{}]{0,400}?",
}
_BEHIND = {"gib": " ?[Gg][Ii]?[Bb]", "mib": " ?[Mm][Ii]?[Bb]"}
_PIECE = re.compile(r"\\(?P<sign>.)|\{(?P<name>\w*):(?P<kind>\w+)\}|(?P<rest>\{\*\})|(?P<mark>[\[\]<>|])|(?P<blank> +)")
_FIXED = re.compile(r"(?:\\.|\{(?!\w*:\w+\}|\*\})|[^\\{\[<])*")
_MARKS = {"[": "(?:", "]": ")?", "<": "(?:", ">": ")", "|": "|"}
_CLOSED = frozenset({"gib", "mib", "size"})
_HALF = Decimal("0.5")


class Found(NamedTuple):
    """A value as a line says it.

    `rounding` is the most that the printed figure differs from the true one; `column` is where it stands, and `open`
    says that nothing but the line's end stands behind it, so that a cut line would look the same.
    """

    name: str
    value: Value
    rounding: float
    column: int
    open: bool


class Form(NamedTuple):
    """A line of an engine; `since` and `until` are the releases it was seen in, None where it still is.

    `refuses` is what the engine lacks where the line says that it does not start; `says` is what the whole line means
    without a place for it.
    """

    template: str
    since: str
    until: str | None
    evidence: str
    pattern: re.Pattern[str]
    kinds: dict[str, str]
    literal: str
    refuses: str | None
    says: tuple[tuple[str, str], ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """What it says."""
        return (*self.kinds, *(name for name, _ in self.says))

    def read(self, text: str, at: int) -> list[Found] | None:
        """The values of a line in which the literal begins at `at`; None where the rest is not as the template."""
        match = self.pattern.match(text, at)
        if match is None:
            return None
        found = [Found(name, value, 0, at, open=False) for name, value in self.says]
        for name, kind in self.kinds.items():
            said = match[name]
            if said is not None:
                value, rounding = _valued(said, kind)
                is_open = kind not in _CLOSED and not text[match.end(name) :].strip()
                found.append(Found(name, value, rounding, match.start(name), is_open))
        return found


def form(template: str, since: str, evidence: str, until: str | None = None, refuses: str | None = None) -> Form:
    """Compile a template; the signs before its first place are what a line is looked through for."""
    parts: list[str] = []
    kinds: dict[str, str] = {}
    end = 0
    for piece in _PIECE.finditer(template):
        parts.append(re.escape(template[end : piece.start()]))
        end = piece.end()
        parts.append(_compiled(piece, kinds))
    parts.append(re.escape(template[end:]))
    literal = re.sub(r"\\(.)", r"\1", _FIXED.match(template)[0]).rstrip()  # type: ignore[index]  # nothing matches too
    pattern = re.compile("".join(parts) + r"\s*\Z", re.ASCII)
    return Form(template, since, until, evidence, pattern, kinds, literal, refuses)


def meaning(template: str, since: str, evidence: str, until: str | None = None, **says: str) -> Form:
    """A line that means something as a whole, by the names of what it says."""
    return form(template, since, evidence, until)._replace(says=tuple(says.items()))


def _compiled(piece: re.Match[str], kinds: dict[str, str]) -> str:
    if piece["kind"]:
        kind = piece["kind"]
        inner = _KINDS[kind]
        if piece["name"]:
            kinds[piece["name"]] = kind
            inner = f"(?P<{piece['name']}>{inner})"
        else:
            inner = f"(?:{inner})"
        return inner + _BEHIND.get(kind, "")
    if piece["sign"]:
        return re.escape(piece["sign"])
    if piece["rest"]:
        return ".*"
    return _MARKS[piece["mark"]] if piece["mark"] else "[ \t]{1,80}"


def _valued(said: str, kind: str) -> tuple[Value, float]:
    if kind in {"gib", "gib_of", "mib"}:
        return sized(said, 1 << (20 if kind == "mib" else 30))
    if kind == "size":
        number, _, unit = said.partition(" ")
        return sized(number, _UNITS[unit])
    if kind in {"bytes", "count"}:
        return int(said.replace(",", "")), 0
    if kind == "card":
        return said.replace("_", " "), 0
    if kind == "number":
        return (float(said) if "." in said else int(said)), float(_step(Decimal(said)) * _HALF)
    return said, 0


def sized(said: str, unit: int) -> tuple[int, int]:
    """Bytes of a printed number of units, and by how many it may differ from what was printed."""
    number = Decimal(said)
    rounding = 0 if unit == 1 else int(_step(number) * _HALF * unit) + 1
    return int((number * unit).to_integral_value()), rounding


def _step(number: Decimal) -> Decimal:
    """What one more of its last digit is."""
    exponent = number.as_tuple().exponent
    return Decimal(1).scaleb(int(exponent))
