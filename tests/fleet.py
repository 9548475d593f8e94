"""A fleet that measures: rows as probes would send them, of which the tests know by how much the catalog is off."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from hashlib import blake2b
from typing import Any
from uuid import UUID

from service.domain.holding import hold
from service.domain.learning import Sample
from service.domain.observations import observe
from service.domain.question import resolve
from tests.domain.conftest import Shelf

GIB = 1 << 30
H100, A100 = "h100-sxm-80gb", "a100-sxm-80gb"
RELEASE = "0.19.0"
MODEL = "llama-3.1-8b-instruct"
START = datetime(2026, 11, 1, tzinfo=UTC)
SHELF = Shelf()


def probe_id(number: int) -> str:
    return str(UUID(int=number, version=4))


def row_id(*words: object) -> str:
    return str(UUID(bytes=blake2b(repr(words).encode(), digest_size=16).digest(), version=4))


@cache
def modelled(  # noqa: PLR0913, PLR0917  # what a start depends on
    gpu: str, version: str, model: str, context: int, tensor: int, engine: str = "vllm"
) -> tuple[int, int]:
    """Bytes and tokens of the pool that the catalog alone expects."""
    asked = {"gpu": gpu, "engine": engine, "engine_version": version, "model": model, "context_tokens": context}
    held = hold(resolve({**asked, "tensor_parallel": tensor, "calibration": "off"}, SHELF))
    return held.pool_bytes, held.capacity_tokens


def capacity_row(  # noqa: PLR0913  # everything that a test may want otherwise
    probe: int,
    beyond_bytes: float,
    *,
    number: int = 0,
    gpu: str = H100,
    version: str = RELEASE,
    model: str = MODEL,
    context: int = 8192,
    tensor: int = 1,
    engine: str = "vllm",
    at: datetime | None = None,
    **values: float,
) -> dict[str, Any]:
    """What an engine printed that keeps so many bytes more for itself than is modelled."""
    pool, _ = modelled(gpu, version, model, context, tensor, engine)
    return {
        "id": row_id(probe, number, gpu, version, model, context, tensor),
        "probe_id": probe_id(probe),
        "kind": "engine_capacity",
        "measured_at": (at or START + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
        "gpu": {"name": gpu, "count": tensor, "driver": "580.95.05"},
        "software": {"engine": engine, "engine_version": version},
        "setup": {"model": model, "context_tokens": context, "tensor_parallel": tensor},
        "values": {"kv_cache_bytes": round(pool - beyond_bytes), **values},
    }


def memory_row(probe: int, total_bytes: int, *, gpu: str = H100, driver: str = "580.95.05", number: int = 0) -> Any:  # noqa: ANN401  # a row
    return {
        "id": row_id(probe, number, gpu, driver, "memory"),
        "probe_id": probe_id(probe),
        "kind": "device_memory",
        "measured_at": (START + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
        "gpu": {"name": gpu, "driver": driver},
        "values": {"total_bytes": total_bytes},
    }


def rate_row(probe: int, kind: str, *, gpu: str = H100, number: int = 0, **values: object) -> dict[str, Any]:
    return {
        "id": row_id(probe, number, gpu, kind, *sorted(map(str, values.items()))),
        "probe_id": probe_id(probe),
        "kind": kind,
        "measured_at": (START + timedelta(minutes=number)).isoformat().replace("+00:00", "Z"),
        "gpu": {"name": gpu, "driver": "580.95.05"},
        "values": values,
    }


def fleet(right_bytes: float, *, nodes: int = 20, wrong: Sequence[float] = (), **more: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401  # as capacity_row's
    """A row of each node: the first ones wrong by what is given, the others right to a few MiB."""
    for node in range(nodes):
        noise = ((node * 7) % 11 - 5) * (GIB >> 9)
        beyond = wrong[node] if node < len(wrong) else right_bytes + noise
        yield capacity_row(node + 1, beyond, **more)


def samples(rows: Sequence[dict[str, Any]]) -> list[Sample]:
    """What the rows teach, compared with the catalog's files."""
    found = []
    for row in rows:
        observed = observe(row, SHELF)
        assert observed is not None, row
        at = datetime.fromisoformat(row["measured_at"])
        found.append(Sample(row["probe_id"], observed[0], at, observed[1]))
    return found
