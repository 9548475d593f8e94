"""Public start-up logs as rows that probes would have sent."""

from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from service.domain.calibration import Quantity
from service.domain.engines.versions import parse
from service.domain.learning import Sample
from service.domain.observations import observe
from tests.fleet import GIB, SHELF

STARTS = Path(__file__).parents[1] / "data" / "vllm_starts.yaml"
_DAY = datetime(2026, 11, 1, tzinfo=UTC)
_UNNAMED = "public start-up log"
_ELSEWHERE = ("gpu", "engine_version", "memory_bytes")


@dataclass(frozen=True, slots=True)
class Start:
    """One log: what it teaches, and where it is from. `pool_bytes` is the cache that it printed."""

    sample: Sample
    source: str
    model: str
    pool_bytes: float

    @property
    def beyond_bytes(self) -> float:
        return self.sample.observations[Quantity.RESERVE].beyond


def row_of(case: dict[str, Any], probe: str) -> dict[str, Any]:
    """A case as an engine_capacity row of that probe."""
    question, figures = case["question"], case["figures"]
    told = ("kv_capacity_tokens", "max_concurrency")
    values: dict[str, Any] = {name: figures[name] for name in told if name in figures}
    values["kv_cache_bytes"] = round(figures["kv_cache_gib"] * GIB)
    gpu = {"name": question.get("gpu"), "memory_bytes": question.get("memory_bytes")}
    return {
        "id": uuid_of(case["id"]),
        "probe_id": uuid_of(probe),
        "kind": "engine_capacity",
        "measured_at": _DAY.isoformat().replace("+00:00", "Z"),
        "gpu": {name: value for name, value in gpu.items() if value is not None},
        "software": {"engine": "vllm", "engine_version": question["engine_version"]},
        "setup": {name: value for name, value in question.items() if name not in _ELSEWHERE},
        "values": values,
    }


def uuid_of(text: str) -> str:
    return str(UUID(bytes=blake2b(text.encode(), digest_size=16).digest(), version=4))


def starts(*, probe_of_each_log: bool, newest_known: str | None = None) -> list[Start]:
    """Every log that can be compared: of one probe a source, or of one a log.

    With `newest_known`, as a catalog would quote them that knows no later release.
    """
    found = (_start(case, newest_known, probe_of_each_log=probe_of_each_log) for case in _cases())
    return [start for start in found if start is not None]


def _cases() -> list[dict[str, Any]]:
    cases: list[dict[str, Any]] = yaml.safe_load(STARTS.read_text())
    return [case for case in cases if "engine_version" in case["question"] and "kv_cache_gib" in case["figures"]]


def _start(case: dict[str, Any], newest_known: str | None, *, probe_of_each_log: bool) -> Start | None:
    source = case["source"].partition(",")[0]
    source = case["id"] if source == _UNNAMED else source
    row = row_of(case, case["id"] if probe_of_each_log else source)
    if newest_known and parse(case["question"]["engine_version"]) > parse(newest_known):
        row["software"]["engine_version"] = newest_known
    observed = observe(row, SHELF)
    if observed is None:
        return None
    scope, told = observed
    sample = Sample(row["probe_id"], scope, _DAY, {Quantity.RESERVE: told[Quantity.RESERVE]})
    return Start(sample, source, case["question"]["model"], row["values"]["kv_cache_bytes"])
