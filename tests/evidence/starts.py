"""Start-up logs found after the rules were written, quoted from the question that each implies."""

import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Shelf

DATA = Path(__file__).parents[1] / "data" / "vllm_unseen.yaml"
GIB = 1 << 30
WEIGHTS, CACHE = "weights_gib", "kv_cache_gib"
OF_THE_CACHE = (CACHE, "kv_capacity_tokens", "max_concurrency")
WEIGHT_SHARE, CACHE_SHARE, CACHE_GIB = 0.01, 0.03, 0.5
PRINTED_SHARE = 1e-3
_ACTIVATIONS = ("reserve.activations", "reserve.sampler", "reserve.encoder")


class Figure(NamedTuple):
    """What a log printed and what is quoted for it; `within` is None for parts that nothing is promised of."""

    name: str
    printed: float
    quoted: float
    within: bool | None

    @property
    def error(self) -> float:
        """The share by which the quote is above what was printed."""
        return (self.quoted - self.printed) / self.printed


class Start(NamedTuple):
    """One log: its figures, whether the interval holds the cache, and why some figure is outside, where one is.

    `stated` ones say all of their question; `blind` ones have prompted no correction.
    """

    id: str
    figures: tuple[Figure, ...]
    held: bool
    outside: str | None
    stated: bool
    blind: bool

    @property
    def within(self) -> bool:
        return all(figure.within is not False for figure in self.figures)


def rows() -> list[dict[str, Any]]:
    """The logs as they are written down."""
    found: list[dict[str, Any]] = yaml.safe_load(DATA.read_text())
    return found


def start_of(row: dict[str, Any], shelf: Shelf) -> Start:
    """A log beside its quote."""
    answer = fit(resolve({"engine": "vllm", **row["question"]}, shelf), shelf)
    quoted, printed = _quoted(answer), row["figures"]
    room = max(CACHE_SHARE, CACHE_GIB / printed[CACHE])
    figures = tuple(_figure(name, said, quoted[name], room) for name, said in printed.items())
    low, high = (size / GIB for size in answer["interval"]["kv_cache_bytes"])
    held = low * (1 - PRINTED_SHARE) <= printed[CACHE] <= high * (1 + PRINTED_SHARE)
    return Start(row["id"], figures, held, row.get("outside"), "inferred" not in row, not row.get("prompted", False))


def _figure(name: str, printed: float, quoted: float, room: float) -> Figure:
    return Figure(name, printed, quoted, _within(name, quoted / printed - 1, room))


def _quoted(answer: dict[str, Any]) -> dict[str, float]:
    sizes = {part["name"]: part["bytes"] / GIB for part in answer["ledger"]["parts"]}
    return {
        WEIGHTS: sizes["weights"],
        CACHE: sizes["kv_cache"],
        "kv_capacity_tokens": answer["kv_capacity_tokens"],
        "max_concurrency": answer["max_concurrency"],
        "activation_gib": sum(sizes.get(name, 0) for name in _ACTIVATIONS),
        "graph_gib": sizes.get("reserve.graphs", 0),
    }


def _within(name: str, error: float, room: float) -> bool | None:
    if name == WEIGHTS:
        return abs(error) <= WEIGHT_SHARE
    return abs(error) <= room if name in OF_THE_CACHE else None


def errors(starts: list[Start], name: str) -> list[float]:
    """Errors of one figure without their signs, smallest first."""
    return sorted(abs(figure.error) for start in starts for figure in start.figures if figure.name == name)


def lines(starts: list[Start]) -> Iterator[str]:
    """The table, a figure a line, and beneath it the median and the 90th percentile of each figure."""
    yield f"{'log':45} {'figure':20} {'printed':>12} {'quoted':>12} {'error':>8}"
    for start in starts:
        yield from (_line(start, figure) for figure in start.figures)
    yield from _summary("all", starts)
    yield from _summary("blind", [start for start in starts if start.blind])
    yield from _summary("all stated", [start for start in starts if start.stated])


def _summary(kind: str, starts: list[Start]) -> Iterator[str]:
    passed, held = sum(start.within for start in starts), sum(start.held for start in starts)
    yield f"{kind}: {passed} of {len(starts)} starts within tolerance, the interval holds {held} caches"
    for name in (WEIGHTS, *OF_THE_CACHE):
        found = errors(starts, name)
        ninth = found[math.ceil(0.9 * len(found)) - 1]
        yield f"  {name}: {len(found)} figures, median {statistics.median(found):.2%}, nine tenths within {ninth:.1%}"


def _line(start: Start, figure: Figure) -> str:
    said = f"{start.id:45} {figure.name:20} {figure.printed:>12g} {figure.quoted:>12.6g} {figure.error:>+8.2%}"
    return said if figure.within is not False else f"{said}  outside"
