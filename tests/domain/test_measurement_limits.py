"""What the catalog lets measurements be held to."""

from types import SimpleNamespace
from typing import Any

import pytest

from service.domain.catalog import CatalogKind
from service.domain.measurement import Lookups, Verdict, judge
from service.domain.measurement_limits import NAMES, Window, from_facts
from tests.domain.conftest import entry
from tests.domain.judging import CATALOG, H100, LLAMA, NOW, TOTAL, judged, row


class Held:
    """The catalog, with other limits or with none."""

    def __init__(self, **limits: object) -> None:
        usual: Any = CATALOG.engine("none")
        self._engine = SimpleNamespace(limits=usual.limits._replace(**limits) if limits else None)

    def __getattr__(self, name: str) -> object:
        return getattr(CATALOG, name)

    def engine(self, name: str, pointer: str = "") -> object:
        return self._engine if name == "none" else CATALOG.engine(name, pointer)


BY_LIMIT: dict[str, tuple[dict[str, object], dict[str, Any]]] = {
    "margin": ({"margin": 0.0}, row("memory_bandwidth", {"bytes_per_second": 3.36e12})),
    "memory margin": ({"memory_margin": 0.0}, row("device_memory", {"total_bytes": int(80.5 * 2**30)})),
    "clock": (
        {"clock_ahead_seconds": 60},
        row("device_memory", {"total_bytes": TOTAL}, measured_at="2026-11-29T12:02:00Z"),
    ),
    "memory": ({"least_memory": 0.99}, row("device_memory", {"total_bytes": 80_000_000_000})),
    "bandwidth": ({"least_bandwidth": 0.7}, row("memory_bandwidth", {"bytes_per_second": 2e12})),
    "gather": ({"least_gather": 0.7}, row("memory_bandwidth", {"bytes_per_second": 2e12, "access": "gather"})),
    "matmul": ({"least_matmul": 0.9}, row("matmul_rate", {"flops_per_second": 8e14, "dtype": "bf16"})),
    "pool": ({"least_pool_bytes": 2**40}, row("engine_capacity", {"kv_cache_bytes": 2**35}, LLAMA)),
    "mixed": (
        {"least_mixed_bits": 8},
        row("decode_step", {"seconds": 0.0015}, {**LLAMA, "weight_dtype": "q4_k_m"}),
    ),
    "guesses": (
        {"most_guessed_tokens": 1},
        row("decode_step", {"seconds": 0.001}, {**LLAMA, "speculative_method": "eagle"}),
    ),
    "cache speed": ({"cache_speed": 1.0}, row("all_reduce", {"bytes": 2**20, "ranks": 8, "seconds": 1e-7})),
    "slow steps": ({"slow_seconds": 0.01, "slow_read": 0.9}, row("decode_step", {"seconds": 0.02}, LLAMA)),
    "slow prefills": (
        {"slow_seconds": 0.01, "slow_work": 0.9},
        row("prefill", {"seconds": 0.5}, {**LLAMA, "prompt_tokens": 8192}),
    ),
    "cache rate": ({"cache_rate": Window(0.98, 1.0)}, row("kv_allocation", {"bytes_per_token": 530_000}, LLAMA)),
    "pool rate": (
        {"pool_rate": Window(0.98, 1.0)},
        row("engine_capacity", {"kv_cache_bytes": 530_000_000, "kv_capacity_tokens": 1000}, LLAMA),
    ),
    "slope": (
        {"slope": Window(0.999, 1.001)},
        row("kv_allocation", {"bytes_per_token": 530_000, "tokens": [0, 10], "bytes": [0, 5_242_880]}, LLAMA),
    ),
    "other unit": (
        {"other_unit": dict.fromkeys(("memory", "bandwidth", "matmul"), Window(0.9, 8))},
        row("memory_bandwidth", {"bytes_per_second": 3e12}),
    ),
}


def test_the_block_of_the_catalog_says_all_that_is_asked_of_it() -> None:
    block = entry(CatalogKind.ENGINE, "none").facts["measurements"]

    assert block.keys() - NAMES == {"evidence", "checked", "confidence"}
    for name in NAMES:
        with pytest.raises(KeyError, match=name):
            from_facts({key: value for key, value in block.items() if key != name})


@pytest.mark.parametrize("limits, measured", list(BY_LIMIT.values()), ids=list(BY_LIMIT))
def test_what_may_be_believed_stands_in_the_catalog(limits: dict[str, object], measured: dict[str, Any]) -> None:
    held: Any = Held(**limits)

    assert judged(measured).verdict is Verdict.ACCEPTED
    assert judge(measured, NOW, Lookups(held)).verdict is Verdict.QUARANTINED


def test_a_catalog_without_limits_believes_nothing_yet_and_says_what_to_do() -> None:
    before: Any = Held()

    found = judge(row("device_memory", {"total_bytes": TOTAL}), NOW, Lookups(before))

    assert (found.verdict, found.gpu_id) == (Verdict.UNMATCHED, H100)
    assert "catalog load" in (found.detail or "")
