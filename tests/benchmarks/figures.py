"""Figures as they are printed, judged and kept: what was seen, beside the most that is allowed."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value. `bar` is the most it may be, None where it is told for information only."""

    name: str
    seen: float
    unit: str
    bar: float | None = None

    @property
    def ok(self) -> bool:
        return self.bar is None or self.seen <= self.bar


def ratio(name: str, costly: float, cheap: float, bar: float | None = None) -> Figure:
    return Figure(name, costly / cheap, "x", bar)


def microseconds(name: str, seconds: float, bar: float | None = None) -> Figure:
    return Figure(name, seconds * 1e6, "us", bar)


def mebibytes(name: str, size_bytes: float, bar: float | None = None) -> Figure:
    return Figure(name, size_bytes / 2**20, "MiB", bar)


def table(figures: Iterable[Figure]) -> str:
    rows = [("figure", "bar", "seen", "ok"), *(_row(figure) for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:>{widths[2]}}  {row[3]}".rstrip() for row in rows]
    lines.insert(1, "-" * max(map(len, lines)))
    return "\n".join(lines)


def as_json(figures: Sequence[Figure]) -> dict[str, Any]:
    return {"ok": all(figure.ok for figure in figures), "figures": [asdict(f) | {"ok": f.ok} for f in figures]}


def _row(figure: Figure) -> tuple[str, str, str, str]:
    bar = "" if figure.bar is None else f"{figure.bar:g} {figure.unit}"
    verdict = "" if figure.bar is None else ("yes" if figure.ok else "MISSED")
    return figure.name, bar, f"{figure.seen:,.4g} {figure.unit}", verdict
