"""`python -m tests.performance`: quoted steps and prefills against public times, in all and with each source left out.

Rows are in `tests/data/times.yaml` (dense models), `expert_times.yaml` (models with experts) and `card_times.yaml`
(whole published tables); the tests hold the figures to their bars, this command prints them.
"""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import yaml

from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.conftest import Shelf

Asked = Callable[..., dict[str, Any]]

MEMORY_BYTES = 10_000_000_000_000
"""Enough for every row: what fits is not asked here."""
DATA = Path(__file__).parent / "data"
NEAR = 0.25


class Quoted(NamedTuple):
    """A published row, the quote's error to it with its sign, and whether the interval holds it."""

    row: dict[str, Any]
    error: float
    held: bool


Rows = list[Quoted]


def published(name: str) -> list[dict[str, Any]]:
    """The rows of a file."""
    rows: list[dict[str, Any]] = yaml.safe_load((DATA / f"{name}.yaml").read_text())
    return rows


def quoted(ask: Asked, rows: Iterable[dict[str, Any]], part: str) -> Rows:
    """Every row that says a step or a prefill, beside what is quoted for it."""
    told = (row for row in rows if f"{part}_seconds" in row)
    return [_against(row, ask(memory_bytes=MEMORY_BYTES, **row["question"])[part], part) for row in told]


def _against(row: dict[str, Any], answer: dict[str, Any], part: str) -> Quoted:
    seconds = row[f"{part}_seconds"]
    low, high = answer["interval_seconds"]
    return Quoted(row, answer["seconds"] / seconds - 1, low <= seconds <= high)


def middle(rows: Rows) -> float:
    """The median error, whatever its sign."""
    return median(abs(one.error) for one in rows)


def share(rows: Rows, of: Callable[[Quoted], bool]) -> float:
    """What share of the rows it holds for."""
    return sum(map(of, rows)) / len(rows)


def near(rows: Rows) -> float:
    """What share is quoted within a quarter."""
    return share(rows, lambda one: abs(one.error) <= NEAR)


def held(rows: Rows) -> float:
    """What share lies in the interval."""
    return share(rows, lambda one: one.held)


def sources(rows: Rows) -> dict[str, Rows]:
    """The rows of each source."""
    found: dict[str, Rows] = {}
    for one in rows:
        found.setdefault(one.row["source"], []).append(one)
    return dict(sorted(found.items()))


_KINDS = {"none": "no engine", "tensorrt-llm": "TensorRT-LLM", "vllm": "GB10"}


def by_kind(rows: Rows) -> dict[str, Rows]:
    """The rows of whole tables by engine, those of llama.cpp by what they ran on: Apple, one other card, or several."""
    found: dict[str, Rows] = {}
    for one in rows:
        question = one.row["question"]
        card = "Apple" if question["gpu"].startswith("apple") else "one card"
        several = question.get("gpu_count", 1) > 1
        kind = _KINDS.get(question["engine"], "cards" if several else card)
        found.setdefault(kind, []).append(one)
    return found


def figures(rows: Rows) -> str:
    """Count, median error, median error with its sign, share within a quarter, share that the interval holds."""
    lean = median(one.error for one in rows)
    return f"{len(rows):4} {middle(rows):7.1%} {lean:+7.1%} {near(rows):7.0%} {held(rows):5.0%}"


def report(name: str, rows: Rows) -> list[str]:
    """All rows, those of several ranks, of each engine and card, and what is left without each source."""
    groups = {"all": rows, "of several ranks": [one for one in rows if _several(one)]}
    for word in ("engine", "gpu"):
        for value in sorted({str(one.row["question"][word]) for one in rows}):
            groups[f"{word} {value}"] = [one for one in rows if one.row["question"][word] == value]
    for source, own in sources(rows).items():
        groups[f"without {source}"] = [one for one in rows if one not in own]
    wide = max(map(len, (name, *groups)))
    head = f"{name:{wide}}   rows  median    lean  in 25%  held"
    return ["", head, *(f"  {group:{wide}} {figures(those)}" for group, those in groups.items() if those)]


def tables(name: str, rows: Rows) -> list[str]:
    """The rows of whole tables, by what they ran on."""
    kinds = by_kind(rows)
    wide = max(map(len, (name, *kinds)))
    head = f"{name:{wide}}   rows  median    lean  in 25%  held"
    return ["", head, *(f"  {kind:{wide}} {figures(those)}" for kind, those in kinds.items())]


def _several(one: Quoted) -> bool:
    return bool(one.row["question"].get("tensor_parallel", 1) > 1)


def main() -> int:
    """Print every figure."""
    shelf = Shelf()

    def ask(**asked: Any) -> dict[str, Any]:  # noqa: ANN401  # as questions are
        return traffic(resolve(asked, shelf), shelf)

    dense, experts, whole = published("times"), published("expert_times"), published("card_times")
    lines = [
        *report("steps of dense models", quoted(ask, dense, "step")),
        *report("prefills of dense models", quoted(ask, dense, "prefill")),
        *report("steps of models with experts", quoted(ask, experts, "step")),
        *tables("steps of whole tables", quoted(ask, whole, "step")),
        *tables("prompts of whole tables", quoted(ask, whole, "prefill")),
    ]
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
