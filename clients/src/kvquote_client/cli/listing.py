"""The catalog's lists: which columns a person wants to see of each, and which filters it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kvquote_client import filters
from kvquote_client.cli.figures import said, scaled, share, size, whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kvquote_client.cli.screen import Screen

_BILLION: Final = 1e9
_TERA: Final = 1e12
_NONE: Final = "-"
_CIRCUMSTANCES: Final = (
    *("gpu", "architecture", "driver", "engine", "engine_version", "layout", "model_class"),
    *("dtype", "ranks", "batch"),
)


class Column(NamedTuple):
    """A heading, the name in a row, and how its figure is shown; `told` is for what takes more of a row than that."""

    heading: str
    name: str
    shown: Callable[[Any], str] = said
    told: Callable[[Mapping[str, Any], str], str] | None = None

    def cell(self, row: Mapping[str, Any]) -> str:
        """What stands in that row."""
        return self.told(row, self.name) if self.told else self.shown(row.get(self.name))


class Listing(NamedTuple):
    """One list: what it is of, what it can be filtered by, and its columns, the least wanted last.

    `has_entries` is whether one of its rows can be asked for by name.
    """

    words: str
    filters: type
    columns: Sequence[Column]
    has_entries: bool = True

    def lines(self, rows: Sequence[Mapping[str, Any]], screen: Screen) -> list[str]:
        """The rows as a table."""
        cells = [[column.cell(row) for column in self.columns] for row in rows]
        return screen.table([column.heading for column in self.columns], cells)


def entry_lines(entry: Mapping[str, Any], screen: Screen) -> list[str]:
    """One entry's own fields, a line each; what is deeper is for --json."""
    plain = {name: value for name, value in entry.items() if not isinstance(value, dict) and not _deep(value)}
    width = max(map(len, plain), default=0)
    return [screen.text(f"{name.ljust(width)}  {_field(name, value)}") for name, value in plain.items()]


def _deep(value: object) -> bool:
    return isinstance(value, list) and any(isinstance(item, (dict, list)) for item in value)


def _field(name: str, value: Any) -> str:  # noqa: ANN401 - whatever an entry holds
    if name.endswith("_bytes") and isinstance(value, int):
        return f"{value:,} ({size(value)})"
    return said(value) if not name.endswith(("year", "revision")) else str(value)


def _billions(count: float | None) -> str:
    return scaled(count, _BILLION)


def _teras(count: float | None) -> str:
    return scaled(count, _TERA)


def _percent(part: float | None) -> str:
    return _NONE if part is None else share(part, 1)


def _signed_percent(part: float | None) -> str:
    return f"{'+' if part and part > 0 else ''}{_percent(part)}"


def _in_unit(row: Mapping[str, Any], name: str) -> str:
    """A figure of what was learned, in the row's own unit."""
    value = row.get(name)
    if value is None:
        return _NONE
    sign = "+" if value > 0 else "-" if value < 0 else ""
    return f"{sign}{size(abs(value)) if row.get('unit') == 'bytes' else _percent(abs(value))}"


def _error(row: Mapping[str, Any], name: str) -> str:
    return _in_unit(row, name).removeprefix("+")


def _circumstances(row: Mapping[str, Any], _: str) -> str:
    """What the measurements behind a value have in common, as its rung names it."""
    return ", ".join(str(row[name]) for name in _CIRCUMSTANCES if row.get(name) is not None) or "all"


def _year(year: int | None) -> str:
    return said(None if year is None else str(year))


LISTINGS: Final = {
    "models": Listing(
        "models of the catalog",
        filters.ModelFilters,
        (
            Column("model", "id"),
            Column("parameters, 1e9", "parameters", _billions),
            Column("active, 1e9", "active_parameters", _billions),
            Column("context", "context_tokens", whole),
            Column("weights", "weight_bytes", size),
            Column("in", "weight_dtype"),
            Column("quoted", "has_reader"),
            Column("family", "family"),
            Column("licence", "licence"),
        ),
    ),
    "gpus": Listing(
        "GPUs of the catalog",
        filters.GpuFilters,
        (
            Column("gpu", "id"),
            Column("name", "name"),
            Column("on the box, GB", "memory_bytes", _billions),
            Column("visible", "visible_memory_bytes", size),
            Column("GB/s", "bandwidth_bytes_per_second", _billions),
            Column("16-bit TFLOP/s", "peak_fp16_flops_per_second", _teras),
            Column("8-bit TFLOP/s", "peak_fp8_flops_per_second", _teras),
            Column("year", "release_year", _year),
        ),
    ),
    "instances": Listing(
        "what clouds rent",
        filters.InstanceFilters,
        (
            Column("instance", "id"),
            Column("cloud", "cloud"),
            Column("gpu", "gpu"),
            Column("gpus", "gpu_count", whole),
            Column("USD/h", "price_usd_per_hour"),
            Column("in", "price_region"),
            Column("sold", "sold_as"),
            Column("as of", "price_as_of"),
        ),
    ),
    "dtypes": Listing(
        "number formats of weights and caches",
        filters.DtypeFilters,
        (
            Column("format", "id"),
            Column("weights", "weight"),
            Column("bits", "weight_element_bits"),
            Column("cache", "kv"),
            Column("bits", "kv_element_bits"),
            Column("GGUF mix", "gguf_mix"),
        ),
    ),
    "engines": Listing(
        "engines, and the releases that are known of each",
        filters.EntryFilters,
        (
            Column("engine", "id"),
            Column("name", "name"),
            Column("newest", "newest_version"),
            Column("releases", "known_versions", whole),
        ),
    ),
    "calibrations": Listing(
        "what measurements taught",
        filters.CalibrationFilters,
        (
            Column("quantity", "quantity"),
            Column("of", "rung", told=_circumstances),
            Column("beyond the catalog", "estimate", told=_in_unit),
            Column("measured from", "low", told=_in_unit),
            Column("to", "high", told=_in_unit),
            Column("probes", "probes", whole),
            Column("rows", "measurements", whole),
            Column("error before", "error_before", told=_error),
            Column("after", "error_after", told=_error),
            Column("used", "usable"),
            Column("newest", "newest_at"),
            Column("until", "known_until"),
            Column("why not", "refusal"),
        ),
        has_entries=False,
    ),
    "accuracy": Listing(
        "how quotes fared beside what was measured",
        filters.AccuracyFilters,
        (
            Column("family", "family"),
            Column("gpu", "gpu"),
            Column("engine", "engine"),
            Column("release", "engine_version"),
            Column("figure", "figure"),
            Column("rows", "measurements", whole),
            Column("probes", "probes", whole),
            Column("median error", "median_error", _signed_percent),
            Column("typical", "typical_error", _percent),
            Column("9 of 10 below", "large_error", _percent),
            Column("typical, learned", "learned_typical_error", _percent),
            Column("in the interval", "inside_interval", _percent),
            Column("drifting", "drifting"),
            Column("newest", "newest_at"),
        ),
        has_entries=False,
    ),
}
