"""Times that use what measurements taught: shares of rates, all-reduces, and whole steps."""

from typing import Any

import pytest

from service.domain.observations import observe
from service.domain.question import resolve
from service.domain.traffic_quote import traffic
from tests.domain.conftest import Shelf
from tests.domain.test_taught_quotes import TaughtShelf
from tests.fleet import H100, MODEL, RELEASE, SHELF, START, probe_id, rate_row, row_id

ASKED = {"model": MODEL, "gpu": H100, "engine": "vllm", "engine_version": RELEASE, "context_tokens": 4096}
PROBES = range(1, 9)


def ask(shelf: Shelf, **asked: Any) -> dict[str, Any]:  # noqa: ANN401  # as questions are
    return traffic(resolve({**ASKED, "batch_size": 16, **asked}, shelf), shelf)


def step_row(probe: int, seconds: float, batch: int = 16) -> dict[str, Any]:
    return {
        "id": row_id(probe, "step", batch),
        "probe_id": probe_id(probe),
        "kind": "decode_step",
        "measured_at": START.isoformat().replace("+00:00", "Z"),
        "gpu": {"name": H100},
        "software": {"engine": "vllm", "engine_version": RELEASE},
        "setup": {"model": MODEL, "context_tokens": 4096, "batch_size": batch},
        "values": {"seconds": seconds},
    }


def slower(shelf: Shelf, factor: float) -> list[dict[str, Any]]:
    modelled = ask(shelf)["step"]["seconds"]
    return [step_row(probe, modelled * factor * (1 + probe / 1000)) for probe in PROBES]


def test_a_step_is_as_long_as_probes_measured_it(shelf: Shelf) -> None:
    before, after = ask(shelf), ask(TaughtShelf(*slower(shelf, 1.5)))

    assert after["step"]["seconds"] == pytest.approx(before["step"]["seconds"] * 1.5, rel=0.05)
    assert sum(after["step"]["shares"].values()) == pytest.approx(1)
    assert (after["efficiency"]["source"], after["efficiency"]["measurements"]) == ("measured", 8)
    low, high = after["step"]["interval_seconds"]
    assert low < after["step"]["seconds"] < high
    assert high - low < before["step"]["interval_seconds"][1] - before["step"]["interval_seconds"][0]
    assert any("8 measurements of 8 probes" in line for line in after["assumptions"])


def test_off_is_the_modelled_step(shelf: Shelf) -> None:
    taught = TaughtShelf(*slower(shelf, 1.5))

    assert ask(taught, calibration="off") == ask(shelf, calibration="off")


def test_steps_of_one_batch_say_nothing_about_others(shelf: Shelf) -> None:
    taught = TaughtShelf(*slower(shelf, 1.5))

    assert ask(taught, batch_size=128)["step"] == ask(shelf, batch_size=128)["step"]


def test_bandwidth_that_is_reached_replaces_what_is_modelled(shelf: Shelf) -> None:
    rows = [rate_row(probe, "memory_bandwidth", bytes_per_second=2.2e12, access="read") for probe in PROBES]
    before, after = ask(shelf), ask(TaughtShelf(*rows))

    assert after["step"]["memory_seconds"] > 1.1 * before["step"]["memory_seconds"]
    assert after["efficiency"]["source"] == "measured"
    given = ask(TaughtShelf(*rows), bandwidth_bytes_per_second=3e12)
    assert given["step"] == ask(shelf, bandwidth_bytes_per_second=3e12)["step"]


def test_slow_links_make_long_steps(shelf: Shelf) -> None:
    rows = [rate_row(probe, "all_reduce", bytes=65536, ranks=4, seconds=9e-5) for probe in PROBES]
    before, after = ask(shelf, tensor_parallel=4), ask(TaughtShelf(*rows), tensor_parallel=4)

    assert after["step"]["communication_seconds"] > 2 * before["step"]["communication_seconds"]
    assert ask(TaughtShelf(*rows))["step"] == ask(shelf)["step"]


def test_slow_matrices_make_long_prefills(shelf: Shelf) -> None:
    rows = [
        rate_row(probe, "matmul_rate", flops_per_second=1.5e14, dtype="bfloat16", m=8192, n=8192, k=8192)
        for probe in PROBES
    ]

    assert ask(TaughtShelf(*rows))["prefill"]["seconds"] > 2 * ask(shelf)["prefill"]["seconds"]


@pytest.mark.parametrize("access", ["gather", "copy"])
def test_gathers_and_copies_teach_no_reading(access: str) -> None:
    assert observe(rate_row(1, "memory_bandwidth", bytes_per_second=2e12, access=access), SHELF) is None
