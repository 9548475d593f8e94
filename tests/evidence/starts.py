"""Start-up logs found after the rules were written, quoted from the question that each implies."""

import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from service.domain.engines.llama_cpp.policy import LlamaCppEngine
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Shelf

DATA = Path(__file__).parents[1] / "data"
FILES = {
    "vllm": "vllm_unseen.yaml",
    "sglang": "sglang_unseen.yaml",
    "tensorrt-llm": "tensorrt_llm_unseen.yaml",
    "llama.cpp": "llama_cpp_unseen.yaml",
}
SIZES = {"gib": 1 << 30, "mib": 1 << 20}
GIB = SIZES["gib"]
WEIGHTS, CACHE, TOKENS, STATES, BUFFER = "weights", "kv_cache", "kv_capacity_tokens", "state", "compute"
POOL_TOKENS = "tokens_of_the_printed_cache"
OF_THE_CACHE = (CACHE, TOKENS, "max_concurrency")
SUMMED = (WEIGHTS, *OF_THE_CACHE, POOL_TOKENS, STATES, BUFFER)
WEIGHT_SHARE, CACHE_SHARE, CACHE_GIB, EXACT_SHARE = 0.01, 0.03, 0.5, 0.005
# What loading takes of free memory beside the weights, where that is what an engine prints.
WEIGHT_GIB = {"sglang": 0.3}
PRINTED_SHARE = 1e-3
# Engines that print a block more than their budget holds.
WHOLE = {"tensorrt-llm"}
_AMPLE = {"memory_bytes": 10**13}
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

    `held` is None where the log prints nothing that an interval is given of; `stated` ones say all of their question;
    `blind` ones have prompted no correction.
    """

    id: str
    figures: tuple[Figure, ...]
    held: bool | None
    outside: str | None
    stated: bool
    blind: bool

    @property
    def within(self) -> bool:
        return all(figure.within is not False for figure in self.figures)


def rows(engine: str = "vllm") -> list[dict[str, Any]]:
    """The logs of an engine as they are written down."""
    found: list[dict[str, Any]] = yaml.safe_load((DATA / FILES[engine]).read_text())
    return found


def start_of(row: dict[str, Any], shelf: Shelf, engine: str = "vllm") -> Start:
    """A log beside its quote."""
    question = _question(row, engine)
    answer = fit(resolve(question, shelf), shelf)
    pool = next((row[name] * SIZES[name[-3:]] for name in row if name.startswith("pool_")), None)
    quoted = _quoted(answer)
    if pool is not None:
        quoted[POOL_TOKENS] = fit(resolve(question | {"kv_cache_bytes": round(pool)}, shelf), shelf)[TOKENS]
    printed = _printed(row, exact=pool is not None)
    figures = tuple(_figure(engine, name, said, quoted[name], printed) for name, said in printed.items())
    held = _held(answer, printed, question, shelf)
    return Start(row["id"], figures, held, row.get("outside"), "inferred" not in row, not row.get("prompted", False))


def _question(row: dict[str, Any], engine: str) -> dict[str, Any]:
    question: dict[str, Any] = {"engine": engine, **row["question"]}
    return question if question.keys() & {"gpu", "memory_bytes"} else question | _AMPLE


def _printed(row: dict[str, Any], *, exact: bool) -> dict[str, float]:
    """Figures by their names without a unit, sizes in GiB; tokens of a printed cache have a name of their own."""
    found = {}
    for name, said in row["figures"].items():
        plain, _, unit = name.rpartition("_")
        if unit in SIZES:
            found[plain] = said * SIZES[unit] / GIB
        else:
            found[POOL_TOKENS if exact and name == TOKENS else name] = said
    return found


def _figure(engine: str, name: str, said: float, quoted: float, printed: dict[str, float]) -> Figure:
    return Figure(name, said, quoted, _within(engine, name, quoted / said - 1, printed))


def _quoted(answer: dict[str, Any]) -> dict[str, float]:
    sizes = {part["name"]: part["bytes"] / GIB for part in answer["ledger"]["parts"]}
    return {
        WEIGHTS: sizes["weights"],
        CACHE: sizes["kv_cache"],
        TOKENS: answer[TOKENS],
        "max_concurrency": answer["max_concurrency"],
        "activation": sum(sizes.get(name, 0) for name in _ACTIVATIONS),
        "graph": sizes.get("reserve.graphs", 0),
        STATES: sizes.get("reserve.state", 0),
        BUFFER: sizes.get("reserve.activations", 0),
    }


def _within(engine: str, name: str, error: float, printed: dict[str, float]) -> bool | None:
    if name == WEIGHTS:
        return abs(error) <= max(WEIGHT_SHARE, WEIGHT_GIB.get(engine, 0) / printed[WEIGHTS])
    if name == POOL_TOKENS:
        return abs(error) <= EXACT_SHARE
    if name == STATES or name in OF_THE_CACHE:
        return abs(error) <= max(CACHE_SHARE, CACHE_GIB / printed[CACHE] if CACHE in printed else 0)
    return None


def _held(answer: dict[str, Any], printed: dict[str, float], question: dict[str, Any], shelf: Shelf) -> bool | None:
    """Whether the interval holds the printed cache, of llama.cpp the buffer, which alone has a spread there."""
    if CACHE in printed:
        low, high = (size / GIB for size in answer["interval"]["kv_cache_bytes"])
        room = answer["block_tokens"] * answer["rank"]["kv_bytes_per_token"] / GIB if question["engine"] in WHOLE else 0
        return bool(low * (1 - PRINTED_SHARE) <= printed[CACHE] <= high * (1 + PRINTED_SHARE) + room)
    engine = resolve(question, shelf).engine
    if BUFFER not in printed or not isinstance(engine, LlamaCppEngine):
        return None
    rule, size = engine.release(question["engine_version"]).compute, _quoted(answer)[BUFFER]
    return size * rule.low <= printed[BUFFER] <= size * rule.high


def errors(starts: list[Start], name: str) -> list[float]:
    """Errors of one figure without their signs, smallest first."""
    return sorted(abs(figure.error) for start in starts for figure in start.figures if figure.name == name)


def lines(starts: list[Start]) -> Iterator[str]:
    """The table, a figure a line, and beneath it the median and the 90th percentile of each figure."""
    yield f"{'log':45} {'figure':28} {'printed':>12} {'quoted':>12} {'error':>8}"
    for start in starts:
        yield from (_line(start, figure) for figure in start.figures)
    yield from _summary("all", starts)
    yield from _summary("blind", [start for start in starts if start.blind])
    yield from _summary("all stated", [start for start in starts if start.stated])


def _summary(kind: str, starts: list[Start]) -> Iterator[str]:
    passed, asked = sum(start.within for start in starts), [start.held for start in starts if start.held is not None]
    yield f"{kind}: {passed} of {len(starts)} starts within tolerance, the interval holds {sum(asked)} of {len(asked)}"
    for name in SUMMED:
        if found := errors(starts, name):
            ninth = found[math.ceil(0.9 * len(found)) - 1]
            middle = statistics.median(found)
            yield f"  {name}: {len(found)} figures, median {middle:.2%}, nine tenths within {ninth:.1%}"


def _line(start: Start, figure: Figure) -> str:
    said = f"{start.id:45} {figure.name:28} {figure.printed:>12g} {figure.quoted:>12.6g} {figure.error:>+8.2%}"
    return said if figure.within is not False else f"{said}  outside"
