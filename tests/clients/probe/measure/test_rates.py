"""Bandwidth, matrix products and sums over ranks: their arithmetic, and one small run of each on the CPU."""

from argparse import ArgumentParser, Namespace
from types import ModuleType

import pytest

from kvquote_probe.commands import MeasureError
from kvquote_probe.measure import allreduce, bandwidth, matmul
from kvquote_probe.measure.nursery import Nursery
from kvquote_probe.measure.setting import Bench, add_device_arguments
from kvquote_probe.measure.timing import Timing
from kvquote_probe.readings import Reading
from kvquote_probe.rows import make_row
from service.api.schemas.measurement_rows import read_row

QUICK = "--samples 3 --warm-up 0 --seconds 1"
PROBE = "0b5f2d0e-8f0c-4c6e-9d57-3f1c2b1d9a10"


def asked(module: ModuleType, line: str) -> Namespace:
    parser = ArgumentParser()
    add_device_arguments(parser)
    module.add_arguments(parser)
    return parser.parse_args([*QUICK.split(), *line.split()])


def measured(module: ModuleType, bench: Bench, line: str) -> list[Reading]:
    return list(module.measure(asked(module, line), lambda _: None, bench))


def test_bytes_of_a_copy_count_twice_and_those_of_a_read_once() -> None:
    timings = {("read", "sum"): Timing((0.5,)), ("copy", "copy"): Timing((0.5,)), ("gather", "bag"): Timing((0.5,))}

    rates = {way: bandwidth._row(way, timings, 1000, 64, {})["values"]["bytes_per_second"] for way, _ in timings}

    assert rates == {"read": 2000.0, "copy": 4000.0, "gather": 2000.0}


def test_the_fastest_kernel_that_reads_counts() -> None:
    timings = {("read", "sum"): Timing((0.5,)), ("read", "mv"): Timing((0.25,))}

    values = bandwidth._row("read", timings, 1000, 64, {})["values"]

    assert (values["kernel"], values["bytes_per_second"]) == ("mv", 4000.0)
    assert values["kernels"] == {"sum": 2000.0, "mv": 4000.0}


def test_a_gather_reads_every_page_once(nursery: Nursery) -> None:
    asked_for = {"elements": 8192 * 32, "page_bytes": 4096}

    share = nursery.run("tests.clients.probe.measure.drills:gathered_share", asked_for, lambda _: None)

    assert share == pytest.approx(1.0, rel=1e-5)


def test_every_access_is_measured_and_the_service_takes_the_rows(bench: Bench) -> None:
    readings = measured(bandwidth, bench, "--working-set-bytes 4000000")

    assert [reading.values["access"] for reading in readings] == ["read", "copy", "gather"]
    # Slower than the slowest disk or faster than any memory would be a mistake of units.
    assert all(1e8 < reading.values["bytes_per_second"] < 1e13 for reading in readings)
    assert not any(reading.values["past_cache"] for reading in readings)
    assert [read_row(make_row(reading, PROBE), 3).faults for reading in readings] == [[], [], []]


def test_a_product_counts_two_operations_for_each_multiplication() -> None:
    row = matmul._row("bf16", {(10, 20, 30): Timing((0.5,)), (10, 20, 3): Timing((0.5,))}, {})

    assert row["values"]["flops_per_second"] == 2 * 10 * 20 * 30 / 0.5
    assert row["values"]["median_flops_per_second"] == 2 * 10 * 20 * (30 + 3) / 2 / 0.5
    assert (row["values"]["m"], row["values"]["n"], row["values"]["k"]) == (10, 20, 30)


def test_products_are_measured_by_type_and_the_service_takes_the_rows(bench: Bench) -> None:
    readings = measured(matmul, bench, "--shapes 64x64x64,128x64x96 --dtypes fp32,bf16")

    assert [reading.values["dtype"] for reading in readings] == ["fp32", "bf16"]
    assert all(1e6 < reading.values["flops_per_second"] < 1e15 for reading in readings)
    assert [read_row(make_row(reading, PROBE), 3).faults for reading in readings] == [[], []]


def test_a_type_that_the_device_cannot_multiply_in_is_said_and_left_out(bench: Bench, said: list[str]) -> None:
    found = list(matmul.measure(asked(matmul, "--shapes 64x64x64 --dtypes fp8"), said.append, bench))

    assert found == []
    assert "fp8" in said[-1]


def test_two_ranks_sum_and_the_bus_carries_what_each_brings(bench: Bench) -> None:
    readings = measured(allreduce, bench, "--ranks 2 --sizes 1024,65536")

    assert [(reading.values["bytes"], reading.values["ranks"]) for reading in readings] == [(1024, 2), (65536, 2)]
    for reading in readings:
        values = reading.values
        # Of two ranks each sends and receives its bytes once.
        assert values["bus_bytes_per_second"] == pytest.approx(values["bytes"] / values["seconds"])
        assert values["backend"] == "gloo"
    assert [read_row(make_row(reading, PROBE), 3).faults for reading in readings] == [[], []]


def test_a_sum_over_one_rank_is_refused(bench: Bench) -> None:
    with pytest.raises(MeasureError, match="two"):
        measured(allreduce, bench, "--ranks 1")
