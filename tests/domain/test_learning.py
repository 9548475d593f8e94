"""What is learned of many measurements, some of them wrong: rungs, outliers, minimums, and rungs that are refused."""

from typing import Any

import pytest

from service.domain.calibration import Calibration, Learned, Quantity, Scope
from service.domain.learning import learn, merged
from service.domain.observations import observe
from tests.fleet import (
    A100,
    GIB,
    H100,
    RELEASE,
    SHELF,
    capacity_row,
    fleet,
    memory_row,
    rate_row,
    samples,
)

H100_TOTAL, LESS = 84_929_347_584, 300 << 20
SCOPE = Scope(H100, "nvidia hopper", None, "vllm", RELEASE, "tp1", "dense", batch="8192x1024")
QWEN = "qwen3-8b"


def taught(*rows: dict[str, Any]) -> Calibration:
    return Calibration(1, 1, learn(samples(rows)))


def reserve(*rows: dict[str, Any], scope: Scope = SCOPE) -> Learned | None:
    return taught(*rows).find(Quantity.RESERVE, scope)


def found(*rows: dict[str, Any], scope: Scope = SCOPE) -> Learned:
    learned = reserve(*rows, scope=scope)
    assert learned is not None
    return learned


def test_a_fleet_teaches_what_its_nodes_agree_on() -> None:
    learned = found(*fleet(1.0 * GIB))

    assert learned.rung == "gpu+engine+version+layout+model_class+batch"
    assert learned.estimate == pytest.approx(1.0 * GIB * 20 / 21, rel=0.01)
    assert (learned.probes, learned.measurements, learned.outliers) == (20, 20, 0)
    assert learned.low < 1.0 * GIB < learned.high


def test_one_noisy_node_in_twenty_moves_nothing() -> None:
    right, noisy = found(*fleet(1.0 * GIB)), found(*fleet(1.0 * GIB, wrong=[30.0 * GIB]))

    assert noisy.outliers == 1
    assert abs(noisy.estimate - right.estimate) < 8 << 20
    assert noisy.high < 1.1 * GIB


def test_three_nodes_that_are_wrong_in_different_ways_are_set_aside() -> None:
    learned = found(*fleet(1.0 * GIB, wrong=[-9.0 * GIB, 4.0 * GIB, 40.0 * GIB]))

    assert (learned.outliers, learned.probes) == (3, 17)
    assert learned.estimate == pytest.approx(1.0 * GIB, rel=0.08)


def test_one_probe_cannot_outvote_ten() -> None:
    loud = [capacity_row(99, 20.0 * GIB, number=number) for number in range(400)]

    learned = found(*fleet(1.0 * GIB, nodes=10), *loud)

    assert learned.estimate == pytest.approx(1.0 * GIB, rel=0.1)
    assert learned.outliers == 1


def test_rows_of_one_probe_are_taken_together_without_changing_what_is_learned() -> None:
    rows = [row for number in range(5) for row in fleet(1.0 * GIB, nodes=6, wrong=[7.0 * GIB], number=number)]
    apart = samples(rows)
    together = [merged([one for one in apart if one.probe == probe]) for probe in {one.probe for one in apart}]

    assert learn(together) == learn(apart)
    assert sum(one.rows for one in together) == 30
    assert merged(apart[:1]) is apart[0]


def test_what_few_say_is_drawn_toward_the_catalog() -> None:
    few, many = found(*fleet(1.0 * GIB, nodes=3)), found(*fleet(1.0 * GIB, nodes=30))

    assert few.estimate == pytest.approx(0.75 * GIB, rel=0.02)
    assert many.estimate == pytest.approx(0.97 * GIB, rel=0.02)


def test_two_probes_are_too_few_whatever_they_say_how_often() -> None:
    rows = [capacity_row(probe, 1.0 * GIB, number=n) for probe in (1, 2) for n in range(50)]

    assert reserve(*rows) is None
    learned = next(taught(*rows).ladder(Quantity.RESERVE, SCOPE))
    assert learned.refusal == "2 of the 3 probes that it takes"


def test_a_fresh_release_is_not_calibrated_by_a_single_older_one() -> None:
    fresh = Scope(H100, "nvidia hopper", None, "vllm", "0.20.0", "tp1", "dense", batch="8192x1024")

    assert reserve(*fleet(1.0 * GIB), scope=fresh) is None


def test_a_fresh_release_is_calibrated_by_older_ones_that_foretell_each_other() -> None:
    fresh = Scope(H100, "nvidia hopper", None, "vllm", "0.20.0", "tp1", "dense", batch="8192x1024")
    rows = [row for version in ("0.17.0", "0.18.0", RELEASE) for row in fleet(1.0 * GIB, nodes=4, version=version)]

    learned = found(*rows, scope=fresh)

    assert learned.rung == "gpu+engine"
    assert "0.20.0" not in learned.versions


def test_releases_that_differ_at_random_do_not_foretell_a_fresh_one() -> None:
    fresh = Scope(H100, "nvidia hopper", None, "vllm", "0.20.0", "tp1", "dense", batch="8192x1024")
    rows = [
        row
        for version, beyond in (("0.17.0", 1.0), ("0.18.0", -1.0), (RELEASE, 0.4))
        for row in fleet(beyond * GIB, nodes=4, version=version)
    ]

    assert reserve(*rows, scope=fresh) is None
    refused = next(taught(*rows).ladder(Quantity.RESERVE, fresh))
    assert refused.refusal == "what is left out is foretold no better than by the catalog alone"


def test_a_rung_of_one_class_of_models_says_nothing_about_others() -> None:
    experts = Scope(H100, "nvidia hopper", None, "vllm", RELEASE, "tp1", "experts", batch="8192x1024")

    assert reserve(*fleet(1.0 * GIB), scope=experts) is None


def test_what_a_catalog_says_rightly_is_confirmed() -> None:
    learned = found(*fleet(0.0, nodes=8))

    assert abs(learned.estimate) < 8 << 20
    assert learned.high - learned.low < 0.1 * GIB


def test_what_the_catalog_has_changed_since_is_not_used() -> None:
    calibration = taught(*fleet(1.0 * GIB))
    changed = Calibration(1, 1, calibration.values, frozenset({H100}))

    assert changed.find(Quantity.RESERVE, SCOPE) is None


def test_visible_memory_is_what_most_probes_see_to_the_byte() -> None:
    rows = [memory_row(probe, H100_TOTAL - LESS * (probe == 1)) for probe in range(1, 8)]

    learned = taught(*rows).find(Quantity.VISIBLE_MEMORY, Scope(gpu=H100))

    assert learned is not None
    assert learned.measured == H100_TOTAL
    assert learned.estimate == H100_TOTAL - (SHELF.gpu(H100).visible_bytes or 0)


def test_a_card_under_two_drivers_has_a_rung_for_each_and_says_both() -> None:
    rows = [memory_row(probe, H100_TOTAL, driver="580.95.05") for probe in range(1, 5)]
    rows += [memory_row(probe, H100_TOTAL - LESS, driver="535.1") for probe in range(5, 9)]

    calibration = taught(*rows)

    by_driver = calibration.find(Quantity.VISIBLE_MEMORY, Scope(gpu=H100, driver="535.1"))
    both = next(calibration.ladder(Quantity.VISIBLE_MEMORY, Scope(gpu=H100)))
    assert by_driver is not None
    assert by_driver.measured == H100_TOTAL - LESS
    assert both.drivers == ("535.1", "580.95.05")
    assert both.high - both.low == LESS


def test_a_node_speaks_for_the_driver_that_it_has_now() -> None:
    rows = [memory_row(probe, H100_TOTAL, driver="535.1") for probe in range(1, 5)]
    rows += [memory_row(probe, H100_TOTAL - LESS, driver="580.95.05", number=9) for probe in range(1, 5)]

    learned = taught(*rows).find(Quantity.VISIBLE_MEMORY, Scope(gpu=H100))

    assert learned is not None
    assert (learned.measured, learned.drivers) == (H100_TOTAL - LESS, ("580.95.05",))


@pytest.mark.parametrize(
    "kind, quantity, values",
    [
        ("memory_bandwidth", Quantity.BANDWIDTH, {"bytes_per_second": 2.9e12, "access": "read"}),
        ("matmul_rate", Quantity.COMPUTE, {"flops_per_second": 7.0e14, "dtype": "bfloat16", "m": 8192}),
        ("all_reduce", Quantity.ALL_REDUCE_LATENCY, {"bytes": 65536, "ranks": 4, "seconds": 2.0e-5}),
        ("all_reduce", Quantity.ALL_REDUCE_RATE, {"bytes": 1 << 26, "ranks": 4, "seconds": 4.0e-4}),
    ],
)
def test_rates_are_learned_as_shares_beyond_the_catalog(kind: str, quantity: Quantity, values: dict[str, Any]) -> None:
    learned = learn(samples([rate_row(probe, kind, **values) for probe in range(1, 5)]))

    known = [value for (found_quantity, _), value in learned.items() if found_quantity is quantity and value.usable]
    assert known
    assert all(value.rung.startswith("gpu") and value.estimate > -1 for value in known)


@pytest.mark.parametrize(
    "changed",
    [
        {"software": {"engine": "vllm"}},
        {"software": {"engine": "vllm", "engine_version": "nightly"}},
        {"gpu": {"name": "cpu"}},
        {"gpu": {"name": H100, "count": 4}, "setup": {"model": QWEN}},
        {"setup": {"model": "llama-3.1-8b-instruct", "kv_cache_bytes": 1 << 33}},
        {"values": {"kv_cache_bytes": 0}},
        {"kind": "an_unknown_kind"},
    ],
    ids=str,
)
def test_a_row_that_cannot_be_compared_teaches_nothing(changed: dict[str, Any]) -> None:
    assert observe({**capacity_row(1, 0.0), **changed}, SHELF) is None


def test_cards_of_one_architecture_may_stand_for_another_that_nobody_measured() -> None:
    fresh = Scope("h200-sxm-141gb", "nvidia hopper", None, "vllm", RELEASE, "tp1", "dense", batch="8192x1024")
    rows = [row for gpu in (H100, "h100-pcie-80gb") for row in fleet(1.0 * GIB, nodes=4, gpu=gpu)]
    rows += list(fleet(1.0 * GIB, nodes=4, gpu=A100))

    learned = found(*rows, scope=fresh)

    assert learned.rung == "architecture+engine"
    assert learned.estimate == pytest.approx(1.0 * GIB, rel=0.2)
