"""Coefficients of times: rows of catalog data by device, format, ranks and release, of which the first that fits holds.

A step takes `step + layers x layer + sequences x sequence + max(weights, work) + cache + all-reduces`; a prefill takes
its matrices at a share of the peak that grows with the tokens of a chunk, `maximum x n / (n + half)`, and attention.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from service.domain.engines.speculation import speculation
from service.domain.engines.versions import Release, parse

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence

    from service.domain.engines.speculation import Speculation
    from service.domain.gpu import Gpu

_WIDE_BITS: Final = 16
_EIGHT_BITS: Final = 6.5
_KEPT: Final = 2048
_PAIR: Final = 2
_NOT_MEASURED: Final = ({"seconds": None},)
_BUILD: Final = re.compile(r"b?(\d{1,7})", re.ASCII)


class Case(NamedTuple):
    """What coefficients are asked for: a device, formats by name and bits, ranks, and the release that was named."""

    gpu: Gpu | None
    weights: str
    weight_bits: float
    cache_bits: float
    ranks: int
    release: str | None
    key_elements: int = 0
    """Of the widest attention head."""
    read_bits: float | None = None
    """Of a parameter that a step reads, on average, where a checkpoint mixes formats."""

    @property
    def read_width(self) -> str:
        """The width whose share of the bandwidth reading weights reaches."""
        return _width(self.read_bits or self.weight_bits)


class Row(NamedTuple):
    """Figures and when they hold; a condition that is None always does.

    A row of some releases holds only where the question names one: the others are what the evidence speaks for.
    """

    values: Mapping[str, Any]
    gpus: tuple[str, ...] | None
    formats: tuple[str, ...] | None
    vendor: str | None
    architecture: str | None
    memory: str | None
    link: str | None
    ranks_to: int | None
    since: Release | None
    until: Release | None
    keys_over: int | None

    def holds(self, case: Case, release: Release | None) -> bool:
        """Whether every condition is met."""
        return (
            self._of_device(case.gpu)
            and (self.formats is None or case.weights.startswith(self.formats))
            and (self.ranks_to is None or case.ranks <= self.ranks_to)
            and (self.since is None or (release is not None and release >= self.since))
            and (self.until is None or (release is not None and release < self.until))
            and (self.keys_over is None or case.key_elements > self.keys_over)
        )

    def _of_device(self, gpu: Gpu | None) -> bool:
        if gpu is None:
            return self[1] is None and self[3:7] == (None, None, None, None)
        return (
            (self.gpus is None or gpu.id.startswith(self.gpus))
            and (self.vendor is None or self.vendor == gpu.vendor)
            and (self.architecture is None or self.architecture == gpu.architecture)
            and (self.memory is None or gpu.memory_type.casefold().startswith(self.memory))
            and (self.link is None or (self.link == "nvlink") == (gpu.nvlink_bytes_per_second is not None))
        )


Table = tuple[Row, ...]


class Times(NamedTuple):
    """The coefficients of one case; fractions are of listed rates, `score_bytes` None where scores are streamed.

    `half_tokens` None stands for `half_ridges` times the tokens from which matrices are bound by work; `state_bytes` is
    what a token of a prompt moves for every element of a recurrent state, by what computes it; `chunks_in_flight` how
    many chunks of a prompt devices work on at once that hold layers one after another, None where they take turns;
    `all_to_all` is seconds and bytes a second, None where nobody measured one over such links.
    """

    step_seconds: float
    layer_seconds: float
    expert_layer_seconds: float
    sequence_seconds: float
    sequence_to_seconds: float
    weight_fraction: float
    cache_fraction: float
    compute_fraction: float
    expert_coverage: float
    small_expert_parameters: float
    spread: Mapping[str, float]
    multiplies: tuple[str, ...] | None
    prefill_maximum: float
    half_tokens: float | None
    half_ridges: float
    attention_fraction: float
    attention_half_tokens: float
    score_bytes: float | None
    chunk_tokens: int | None
    prefill_experts: float
    state_bytes: Mapping[str, float]
    chunks_in_flight: int | None
    prefill_spread: Mapping[str, float]
    all_reduce_seconds: float
    link_bytes_per_second: float
    all_to_all: tuple[float, float] | None
    send_seconds: float
    send_bytes_per_second: float

    def share(self, tokens: float, ridge_tokens: float) -> float:
        """Share of the peak that the matrices of so many tokens together reach."""
        half = self.half_ridges * ridge_tokens if self.half_tokens is None else self.half_tokens
        return self.prefill_maximum * tokens / (tokens + half)

    def attention_share(self, tokens: float) -> float:
        """Share of the 16-bit peak that attention over a prompt of that length reaches."""
        return self.attention_fraction * tokens / (tokens + self.attention_half_tokens)


@dataclass(frozen=True, slots=True, eq=False)
class StepPolicy:
    """The tables of an engine; `times` picks from them and keeps what it found."""

    fixed: Table
    weight: Table
    cache: Table
    arithmetic: Table
    spread: Table
    work: Table
    attention: Table
    experts: Table
    chunk: Table
    prefill_spread: Table
    all_reduce: Table
    all_to_all: Table
    speculation: Speculation | None
    compute_fraction: float
    expert_coverage: float
    small_expert_parameters: float
    state_bytes: Mapping[str, float]
    chunks_in_flight: int | None
    formats: tuple[str, ...]
    """Beginnings of formats that a row of any table is for."""
    own_types: tuple[str, ...]
    """Beginnings of formats that some row multiplies in another type than their own; "" where it is for every one."""
    key_limits: tuple[int, ...]
    """Widths of keys beyond which a row of any table holds."""
    ranks_to: int
    """The most ranks that a row of any table is for: beyond them all layouts are alike."""
    kept: dict[Hashable, Times] = field(default_factory=dict, init=False, repr=False)

    def times(self, case: Case) -> Times:
        """The coefficients of a case; of builds on the way to a release those of where they fall."""
        alike = self._alike(case)
        found = self.kept.get(alike)
        if found is None:
            if len(self.kept) >= _KEPT:
                self.kept.clear()
            found = self.kept[alike] = self._times(case)
        return found

    def _alike(self, case: Case) -> Hashable:
        """What the tables tell cases apart by: of the many formats and layouts few differ in any row."""
        formats = tuple(filter(case.weights.startswith, self.formats))
        ranks = min(case.ranks, self.ranks_to + 1)
        keys = tuple([case.key_elements > limit for limit in self.key_limits])
        widths = _width(case.weight_bits), case.read_width, case.cache_bits >= _WIDE_BITS
        return case.gpu, formats, widths, ranks, case.release, keys

    def _times(self, case: Case) -> Times:
        release = _release(case.release)

        def of(table: Table) -> Mapping[str, Any]:
            return _first(table, case, release)

        fixed, work, attention, link = of(self.fixed), of(self.work), of(self.attention), of(self.all_reduce)
        pair = link if case.ranks == _PAIR else _first(self.all_reduce, case._replace(ranks=_PAIR), release)
        width = _width(case.weight_bits)
        types = of(self.arithmetic).get("types")
        return Times(
            step_seconds=float(fixed["step"]),
            layer_seconds=float(fixed["layer"]),
            expert_layer_seconds=float(fixed["expert_layer"]),
            sequence_seconds=float(fixed["sequence"]),
            sequence_to_seconds=float(fixed.get("sequence_to", fixed["sequence"])),
            weight_fraction=of(self.weight)[case.read_width],
            cache_fraction=of(self.cache)["wide" if case.cache_bits >= _WIDE_BITS else "narrow"],
            compute_fraction=self.compute_fraction,
            expert_coverage=self.expert_coverage,
            small_expert_parameters=self.small_expert_parameters,
            spread=of(self.spread),
            multiplies=None if types is None else tuple(types),
            prefill_maximum=work[width],
            half_tokens=work.get("half_tokens"),
            half_ridges=work.get("half_ridges", 0.0),
            attention_fraction=attention.get("fraction", 1.0),
            attention_half_tokens=attention.get("half_tokens", 0.0),
            score_bytes=attention.get("score_bytes"),
            chunk_tokens=of(self.chunk).get("tokens"),
            prefill_experts=of(self.experts)[width],
            state_bytes=self.state_bytes,
            chunks_in_flight=self.chunks_in_flight,
            prefill_spread=of(self.prefill_spread),
            all_reduce_seconds=float(link["seconds"]),
            link_bytes_per_second=_link_rate(link, case.gpu),
            all_to_all=_all_to_all(of(self.all_to_all), case.gpu),
            # An all-reduce of two ranks is a message each way.
            send_seconds=float(pair["seconds"]),
            send_bytes_per_second=_link_rate(pair, case.gpu),
        )


def step_policy(facts: Mapping[str, Any]) -> StepPolicy:
    """Read the form that all engines' entries share; raises ValueError for a table that may leave a case out."""
    step, prefill, link = facts["step"], facts["prefill"], facts["link"]
    tables = {
        "fixed": _table(step["fixed_seconds"]),
        "weight": _table(step["weight_fraction"]),
        "cache": _table(step["cache_fraction"]),
        "arithmetic": _table(step["arithmetic"]),
        "spread": _table(step["spread"]),
        "work": _table(prefill["work"]),
        "attention": _table(prefill["attention"]),
        "experts": _table(_of_any_card(prefill["experts"])),
        "chunk": _table(prefill["chunk"]),
        "prefill_spread": _table(prefill["spread"]),
        "all_reduce": _table(link["all_reduce"]),
        "all_to_all": _table(link.get("all_to_all") or _NOT_MEASURED),
    }
    rows = [row for table in tables.values() for row in table]
    return StepPolicy(
        **tables,
        formats=tuple({word for row in rows for word in row.formats or ()}),
        own_types=tuple({word for row in tables["arithmetic"] if row.values["types"] for word in row.formats or ("",)}),
        key_limits=tuple({row.keys_over for row in rows if row.keys_over is not None}),
        ranks_to=max([_PAIR, *(row.ranks_to for row in rows if row.ranks_to is not None)]),
        speculation=speculation(facts.get("speculation")),
        compute_fraction=step["compute_fraction"],
        expert_coverage=step["expert_coverage"],
        small_expert_parameters=float(step["small_expert_parameters"]),
        state_bytes=prefill.get("bytes_per_state_element", {}),
        chunks_in_flight=prefill.get("chunks_in_flight"),
    )


def _first(table: Table, case: Case, release: Release | None) -> Mapping[str, Any]:
    return next(row.values for row in table if row.holds(case, release))


def _table(rows: Sequence[Mapping[str, Any]]) -> Table:
    table = tuple(_row(row) for row in rows)
    if table[-1][1:] != (None,) * (len(Row._fields) - 1):
        raise ValueError("the last row of a table of times must hold for every case")
    return table


def _of_any_card(fractions: float | Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """A table, or one fraction for every card and width."""
    if isinstance(fractions, (int, float)):
        return ({"wide": fractions, "eight": fractions, "four": fractions},)
    return fractions


def _row(facts: Mapping[str, Any]) -> Row:
    conditions = {name: facts[name] for name in Row._fields[1:] if name in facts}
    for name in {"gpus", "formats"} & conditions.keys():
        conditions[name] = tuple(conditions[name])
    for name in {"since", "until"} & conditions.keys():
        conditions[name] = _written(conditions[name])
    values = {name: value for name, value in facts.items() if name not in conditions}
    return Row(values, *(conditions.get(name) for name in Row._fields[1:]))


def _release(text: str | None) -> Release | None:
    """A release as it is compared; None where it is written in no way that can be."""
    try:
        return None if text is None else _written(text)
    except ValueError:
        return None


def _written(text: str) -> Release:
    """A release by its numbers, or a build by its count; raises ValueError for anything else."""
    build = _BUILD.fullmatch(text)
    if build is None:
        return parse(text)
    count = parse("0")
    return count._replace(numbers=(int(build[1]), *count.numbers[1:]))


def _width(bits: float) -> str:
    if bits >= _WIDE_BITS:
        return "wide"
    return "eight" if bits >= _EIGHT_BITS else "four"


def _all_to_all(link: Mapping[str, Any], gpu: Gpu | None) -> tuple[float, float] | None:
    return (float(link["seconds"]), _link_rate(link, gpu)) if link.get("seconds") is not None else None


def _link_rate(link: Mapping[str, Any], gpu: Gpu | None) -> float:
    """Bytes a second of a large all-reduce: as measured, or a share of what the links of the device are listed with."""
    share = link.get("nvlink_fraction")
    if share is not None and gpu is not None and gpu.nvlink_bytes_per_second:
        return float(share * gpu.nvlink_bytes_per_second)
    return float(link["bytes_per_second"])
