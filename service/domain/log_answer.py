"""What a start-up log says beside what would have been quoted: bytes of each part, and the counts."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from service.domain.echo import NAMES as QUESTION_NAMES
from service.domain.engines.ranks.holding import RanksHolding
from service.domain.engines.sglang.capacity import pool_bytes
from service.domain.errors import QuoteError, ValidationError
from service.domain.holding import hold
from service.domain.log_devices import compared
from service.domain.log_question import implied
from service.domain.logs import NAMES
from service.domain.question import resolve
from service.domain.quote import fit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from service.domain.errors import Fault
    from service.domain.logs import LogReading, Said
    from service.domain.naming import NamedModel
    from service.domain.question import Catalog

FROM_THE_LOG = "log"
"""Where a name of the question came from that the log says."""

_PARTS = {
    "weights": (("weight_bytes",), ("weights", "adapters")),
    "activations": (("activation_bytes",), ("reserve.activations", "reserve.sampler", "reserve.encoder")),
    "other": (("other_bytes",), ("reserve.runtime", "reserve.communication")),
    "graphs": (("graph_estimate_bytes", "graph_bytes"), ("reserve.graphs",)),
    "state": (("state_bytes",), ("reserve.state",)),
    "kv_cache": (("kv_cache_bytes",), ("kv_cache",)),
}
"""What the log calls a part, the first that it says, and the parts of a ledger that are the same memory."""

_FROM_FREE_MEMORY = frozenset({"sglang", "tensorrt-llm"})
_ALLOCATES_WHAT_IS_ASKED = frozenset({"llama.cpp"})

_SECRETS = re.compile(r"(?:^|_)(?:api_?key|key|token|secret|password)$", re.ASCII | re.IGNORECASE)
_SHOWN = 200

_COUNTS = ("kv_capacity_tokens", "max_concurrency", "blocks", "block_tokens")


def log_answer(reading: LogReading, given: Mapping[str, Any], catalog: Catalog) -> dict[str, Any]:
    """What a log says, the question it implies with `given` for what it does not say, and the quote of that.

    `given` goes before the log. A question that cannot be answered leaves the quote null, with the reason.
    """
    found = implied(reading, given, catalog)
    asked, warnings = _asked(found.asked, given, catalog)
    beyond = [fault for fault in found.beyond if fault.pointer[1:] not in given]
    quote, unquoted = _quote(asked, beyond, catalog, found.named)
    cards = "gpus" not in given or _is_same("gpus", found.asked.get("gpus"), given["gpus"], catalog)
    said, unmatched = compared(reading, quote, as_the_log_has_them=cards)
    return {
        "engine": {"name": reading.engine, "version": reading.version},
        "said": {name: _value(reading.said.get(name)) for name in NAMES},
        "said_at": {name: _place(said) for name, said in reading.said.items()},
        "per_rank": [
            {
                "worker": rank.worker,
                "rank": rank.rank,
                "replica": rank.replica,
                "said": {name: said.value for name, said in rank.said.items()},
            }
            for rank in reading.ranks
        ],
        "refusal": None if reading.refusal is None else reading.refusal._asdict(),
        "settings": {name: _shown(value) for name, value in reading.settings.items() if not _SECRETS.search(name)},
        "start": {
            "number": reading.starts,
            "first_line": reading.begins,
            "last_line": reading.ends,
            "lines": reading.lines,
        },
        "question": quote["question"] if quote else {**dict.fromkeys(QUESTION_NAMES), **asked},
        "taken": _taken(asked, given, quote),
        "quote": quote,
        "unquoted": unquoted,
        "comparison": _comparison(reading, said, asked, quote, catalog),
        "counts": _counts(reading, quote),
        "left_out": [each._asdict() for each in reading.left_out],
        "warnings": [
            *(*reading.warnings, *found.warnings, *warnings, *_contradicted(found.asked, given, catalog)),
            *unmatched,
        ],
        "catalog_revision": catalog.revision,
    }


def _asked(found: Mapping[str, Any], given: Mapping[str, Any], catalog: Catalog) -> tuple[dict[str, Any], list[str]]:
    """The log's names under those given, but for those that its engine is not asked for."""
    asked = {name: value for name, value in found.items() if name not in given}
    if "config" in given:
        asked.pop("model", None)
    if "gpus" in given or "memory_bytes" in given:
        asked.pop("gpu", None)
    if "gpus" in asked and given.keys() & {"gpu", "memory_bytes"}:
        asked.setdefault("gpu_count", len(asked.pop("gpus")))
    try:
        takes = catalog.engine(str(given.get("engine", found.get("engine")))).takes
    except QuoteError:
        return {**asked, **given}, []
    beyond = sorted(name for name in asked if name not in takes)
    kept = {name: value for name, value in asked.items() if name in takes}
    return {**kept, **given}, [f"The log says {name}, which is not asked of this engine." for name in beyond]


def _contradicted(found: Mapping[str, Any], given: Mapping[str, Any], catalog: Catalog) -> list[str]:
    """Names that are given with another value than the log says; a shorter context is a question of its own."""
    return [
        f"The log says {name} {said!s:.60}, and {name} is given as {given[name]!s:.60}: the given one is quoted."
        for name, said in found.items()
        if name in given and name != "context_tokens" and not _is_same(name, said, given[name], catalog)
    ]


def _is_same(name: str, said: Any, given: Any, catalog: Catalog) -> bool:  # noqa: ANN401  # as the name's type
    if said == given:
        return True
    try:
        if name == "model":
            return catalog.named_model(str(said)).model.id == catalog.named_model(str(given)).model.id
        if name in {"gpu", "gpus"}:
            return _cards(said, catalog) == _cards(given, catalog)
        if name in {"weight_dtype", "kv_dtype"}:
            return catalog.format(str(said)).name == catalog.format(str(given)).name
    except QuoteError:
        # A path, or a name that the catalog does not have, is what is given for it.
        return name in {"model", "gpu", "gpus"}
    return name == "engine_version" and str(said).lstrip("vb") == str(given).casefold().lstrip("vb")


def _cards(named: Any, catalog: Catalog) -> list[str]:  # noqa: ANN401  # a name, or several
    return [catalog.gpu(str(name)).id for name in (named if isinstance(named, list) else [named])]


def _quote(
    asked: Mapping[str, Any], beyond: Sequence[Fault], catalog: Catalog, named: NamedModel | None
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    try:
        if beyond:
            raise ValidationError(*beyond)
        return fit(resolve(asked, catalog, named), catalog), None
    except QuoteError as error:
        faults = [{"pointer": f.pointer, "detail": f.detail, "nearest": list(f.nearest)} for f in error.faults]
        return None, {"code": error.code, "title": error.title, "detail": error.detail, "errors": faults}


def _taken(asked: Mapping[str, Any], given: Mapping[str, Any], quote: Mapping[str, Any] | None) -> dict[str, str]:
    known = dict(quote["taken"]) if quote else dict.fromkeys(asked, "request")
    return known | {name: FROM_THE_LOG for name in asked if name not in given}


def _shown(value: Any) -> Any:  # noqa: ANN401  # a plain value
    return value[:_SHOWN] if isinstance(value, str) else value


def _value(said: Said | None) -> Any:  # noqa: ANN401  # as the name's type
    return None if said is None else said.value


def _place(said: Said) -> dict[str, Any]:
    return {"line": said.line, "worker": said.worker, "rounding": said.rounding}


def _comparison(
    reading: LogReading,
    figures: Mapping[str, Said],
    asked: Mapping[str, Any],
    quote: Mapping[str, Any] | None,
    catalog: Catalog,
) -> list[dict[str, Any]]:
    rows = []
    if quote is not None:
        parts = {part["name"]: part["bytes"] for part in quote["ledger"]["parts"]}
        for name, (saying, quoted) in _PARTS.items():
            said = next((figures[each] for each in saying if each in figures), None)
            found = [parts[each] for each in quoted if each in parts]
            if name == "kv_cache" and reading.engine in _ALLOCATES_WHAT_IS_ASKED:
                found = _asked_cache(reading, asked, quote, catalog)
            if said is not None and found:
                rows.append(_row(name, said, _value(said), sum(found)))
    return rows + _by_rule(reading, asked, quote)


def _asked_cache(
    reading: LogReading, asked: Mapping[str, Any], quote: Mapping[str, Any], catalog: Catalog
) -> list[int]:
    """The cache of as many sequences as the log's tokens are, for an engine that takes no more than it is asked for.

    Windows are kept for each of them, with one pass beside them, and states are no part of it.
    """
    tokens = _value(reading.said.get("kv_capacity_tokens"))
    length = quote["question"]["context_limit_tokens"]
    held = hold(resolve(asked, catalog))
    if tokens is None or tokens < length or not isinstance(held, RanksHolding):
        return []
    return [held.held.rank.pool.needed(tokens // length, length)]


def _by_rule(reading: LogReading, asked: Mapping[str, Any], quote: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """The cache as the engine's rule gives it from the free memory that the log says."""
    if reading.engine not in _FROM_FREE_MEMORY:
        return []
    share = asked.get("memory_utilization") or (quote["question"]["memory_utilization"] if quote else None)
    before, after = (_value(reading.said.get(name)) for name in ("free_before_bytes", "free_after_bytes"))
    if share is None or after is None or (before is None and reading.engine == "sglang"):
        return []
    pool = pool_bytes(before, after, share) if reading.engine == "sglang" else int(after * Fraction(str(share)))
    cache = reading.said.get("kv_cache_bytes")
    beside = sum(_value(reading.said.get(name)) or 0 for name in ("state_bytes", "draft_cache_bytes"))
    return [_row("kv_cache_from_free_memory", cache, None if cache is None else _value(cache) + beside, pool)]


def _row(part: str, said_by: Said | None, said: int | None, quoted: int) -> dict[str, Any]:
    difference = None if said is None else quoted - said
    relative = difference / said if said and difference is not None else None
    return {
        "part": part,
        "worker": None if said_by is None else said_by.worker,
        "said_bytes": said,
        "quoted_bytes": quoted,
        "difference_bytes": difference,
        "relative": relative,
    }


def _counts(reading: LogReading, quote: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    rows = []
    for name in _COUNTS:
        said, quoted = _value(reading.said.get(name)), quote and quote[name]
        if said is not None and quoted is not None and reading.engine not in _ALLOCATES_WHAT_IS_ASKED:
            relative = (quoted - said) / said if said else None
            rows.append(
                {"name": name, "said": said, "quoted": quoted, "difference": quoted - said, "relative": relative}
            )
    return rows
