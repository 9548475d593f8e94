"""Prometheus metrics, with one process or several behind the same port.

With several, PROMETHEUS_MULTIPROC_DIR must be set before this module is imported: prometheus_client decides then
between memory and files (gunicorn.conf.py sets it). Labels are route templates, never paths, names or tokens.
"""

import os
import platform
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Counter,
    Histogram,
    disable_created_metrics,
)
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from service import __version__

# A quote takes well under a millisecond, a database that is away takes seconds.
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

# A second series beside each counter, which the text format can only pass off as a gauge.
disable_created_metrics()  # type: ignore[no-untyped-call]  # it is not annotated

OWN = CollectorRegistry()
REQUESTS = Counter(
    "kvquote_http_requests_total", "Requests answered.", ["method", "route", "status"], registry=OWN
)  # fmt: skip
DURATION = Histogram(
    "kvquote_http_request_duration_seconds",
    "From the request's arrival in the service until its answer was ready.",
    ["method", "route"],
    buckets=SECONDS,
    registry=OWN,
)
MEASUREMENTS = Counter(
    "kvquote_measurements_total", "Rows of uploads by their verdict.", ["verdict"], registry=OWN
)  # fmt: skip

# labels() takes a lock and builds a tuple of strings each time; the children it returns are permanent.
_children: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}


def count_measurements(verdicts: Mapping[str, int]) -> None:
    """Count the rows of an answered upload; verdicts are a closed set."""
    for verdict, rows in verdicts.items():
        MEASUREMENTS.labels(verdict).inc(rows)


class Fared(NamedTuple):
    """How quotes of one engine fared: groups of measurements, those that drift, and the median of typical errors."""

    engine: str
    groups: int
    drifting: int
    typical_error: float


class Standing(NamedTuple):
    """What the scraped process answers from, None without a catalog; and how quotes fared, as far as that is known."""

    catalog_revision: int | None = None
    calibration_revision: int | None = None
    fared: Sequence[Fared] = ()


class Asked(Protocol):
    """What the scrape asks of the service."""

    def __call__(self) -> Standing:
        """Return how things stand."""


def observe(method: str, route: str, status: str, seconds: float) -> None:
    """Count one answered request."""
    key = (method, route, status)
    children = _children.get(key)
    if children is None:
        children = _children[key] = (REQUESTS.labels(*key), DURATION.labels(method, route))
    children[0].inc()
    children[1].observe(seconds)


def exposition(accept: str, standing: Asked) -> tuple[bytes, str]:
    """All metrics as a scraper reads them, and their content type.

    The registry is built for this one scrape: the multi-process collector reads the files of all workers, and must
    not be kept beside the metrics that write them.
    """
    registry = CollectorRegistry()
    for collector in _collectors():
        registry.register(collector)
    registry.register(_Gauges(standing))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _collectors() -> Sequence[Collector]:
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        return [MultiProcessCollector(None)]  # type: ignore[no-untyped-call]  # its constructor is not annotated
    return [REQUESTS, DURATION, MEASUREMENTS, PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR]


class _Gauges(Collector):
    """What is true of the process at the scrape. Gauges, since Info and Enum vanish with several processes."""

    def __init__(self, standing: Asked) -> None:
        self._standing = standing

    def collect(self) -> Iterator[Metric]:
        build = GaugeMetricFamily("kvquote_build_info", "Always 1.", labels=["version", "python"])
        build.add_metric([__version__, platform.python_version()], 1)
        yield build
        standing = self._standing()
        for name, about, value in (
            ("catalog", "Catalog revision that the scraped process answers from.", standing.catalog_revision),
            ("calibration", "Calibration that the scraped process answers from.", standing.calibration_revision),
        ):
            if value is not None:
                yield GaugeMetricFamily(f"kvquote_{name}_revision", about, value=value)
        yield from _accuracy(standing.fared)


def _accuracy(fared: Sequence[Fared]) -> Iterator[Metric]:
    """Families even where nothing was measured yet, so that an alert can tell none from away."""
    for name, about in (
        ("groups", "Groups of measurements that are compared with quotes."),
        ("drifting_groups", "Of them those whose recent errors left the band that quotes promise."),
        (
            "typical_error_ratio",
            "Median over groups of the typical error of quotes from the catalog alone, as a share.",
        ),
    ):
        family = GaugeMetricFamily(f"kvquote_accuracy_{name}", about, labels=["engine"])
        for one in fared:
            family.add_metric([one.engine], getattr(one, name.removesuffix("_groups").removesuffix("_ratio")))
        yield family
