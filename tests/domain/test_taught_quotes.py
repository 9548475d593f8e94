"""Quotes that use what measurements taught: how much, with which words, and when not."""

from typing import Any

import pytest

from service.domain.calibration import Calibration
from service.domain.errors import QuoteError
from service.domain.learning import learn
from service.domain.observations import observe
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.agreement import check_agrees, parts
from tests.domain.conftest import Shelf
from tests.fleet import GIB, H100, MODEL, RELEASE, SHELF, capacity_row, fleet, memory_row, samples

ASKED = {"model": MODEL, "gpu": H100, "engine": "vllm", "engine_version": RELEASE, "context_tokens": 8192}
BEYOND = 1.0 * GIB
TOTAL = 84_929_347_584


class TaughtShelf(Shelf):
    """The catalog's files with what rows taught beside them."""

    def __init__(self, *rows: dict[str, Any]) -> None:
        self.calibration = Calibration(7, 1, learn(samples(rows)))


@pytest.fixture(scope="module")
def taught() -> Shelf:
    return TaughtShelf(*fleet(BEYOND))


def ask(shelf: Shelf, **asked: Any) -> dict[str, Any]:  # noqa: ANN401  # as questions are
    question = {**ASKED, **asked}
    return fit(resolve(question, shelf), shelf)


def test_the_cache_is_smaller_by_what_probes_found_the_engine_to_keep(taught: Shelf, shelf: Shelf) -> None:
    before, after = ask(shelf), ask(taught)

    lost = parts(before)["kv_cache"] - parts(after)["kv_cache"]
    assert lost == pytest.approx(BEYOND, rel=0.07)
    assert parts(after)["reserve.runtime"] - parts(before)["reserve.runtime"] == pytest.approx(lost, abs=1 << 22)
    check_agrees(after)


def test_the_answer_says_what_stood_behind_it(taught: Shelf) -> None:
    answer = ask(taught)

    assert answer["calibration_revision"] == 7
    calibration = answer["calibration"]
    assert (calibration["rung"], calibration["measurements"], calibration["probes"]) == (
        "gpu+engine+version+layout+model_class+batch",
        20,
        20,
    )
    assert calibration["as_of"] == "2026-11-01T00:00:00Z"
    low, high = calibration["spread_bytes"]
    assert low < BEYOND < high
    assert answer["taken"]["reserve_bytes"] == "calibrated"
    sources = {part["name"]: part["source"] for part in answer["ledger"]["parts"]}
    assert sources["reserve.runtime"] == "calibrated"
    assert sources["reserve.activations"] == "modelled"
    assert any("20 measurements of 20 probes" in line for line in answer["assumptions"])


def test_off_is_the_modelled_answer(taught: Shelf, shelf: Shelf) -> None:
    assert ask(taught, calibration="off") == ask(shelf, calibration="off")


def test_a_calibration_without_rows_changes_nothing(shelf: Shelf) -> None:
    assert ask(TaughtShelf()) | {"calibration_revision": 0} == ask(shelf)


@pytest.mark.parametrize("given", [{"reserve_bytes": 4 * GIB}, {"kv_cache_bytes": 9 * GIB}], ids=str)
def test_what_the_question_sets_wins(taught: Shelf, shelf: Shelf, given: dict[str, int]) -> None:
    assert ask(taught, **given) | {"calibration_revision": 0} == ask(shelf, **given)


def test_the_interval_is_as_wide_as_the_probes_lie_apart() -> None:
    def width(answer: dict[str, Any]) -> int:
        low, high = answer["interval"]["kv_cache_bytes"]
        assert low <= parts(answer)["kv_cache"] <= high
        width: int = high - low
        return width

    agreed = ask(TaughtShelf(*fleet(BEYOND)))
    apart = ask(TaughtShelf(*(capacity_row(node, node % 5 * 0.7 * GIB) for node in range(1, 21))))

    assert width(agreed) < 0.1 * GIB < 2 * GIB < width(apart) < 3.5 * GIB
    assert "20 probes" in agreed["interval"]["basis"]


def test_cards_that_are_like_another_narrow_none_of_its_intervals(shelf: Shelf) -> None:
    rows = [row for gpu in (H100, "h100-pcie-80gb") for row in fleet(BEYOND, nodes=6, gpu=gpu)]
    asked = {"gpu": "h200-sxm-141gb"}
    before, after = ask(shelf, **asked), ask(TaughtShelf(*rows), **asked)

    def reach(answer: dict[str, Any]) -> tuple[int, int]:
        low, high = answer["interval"]["kv_cache_bytes"]
        middle = parts(answer)["kv_cache"]
        return middle - low, high - middle

    assert after["calibration"]["rung"] == "architecture+engine"
    block = 1 << 24
    assert all(own + block >= modelled for own, modelled in zip(reach(after), reach(before), strict=True))


def test_levers_come_true_beside_what_was_learned(taught: Shelf) -> None:
    answer = ask(taught)

    assert answer["levers"]
    for lever in answer["levers"]:
        assert ask(taught, **lever["change"])["max_sequences"] == lever["max_sequences"]


def test_less_than_nothing_is_kept_by_no_engine() -> None:
    answer = ask(TaughtShelf(*fleet(-2.0 * GIB)))

    assert all(part["bytes"] >= 0 for part in answer["ledger"]["parts"])
    assert parts(answer)["kv_cache"] > parts(ask(Shelf()))["kv_cache"]
    check_agrees(answer)


def test_another_card_is_quoted_as_before(taught: Shelf, shelf: Shelf) -> None:
    other = {"gpu": "l40s"}

    assert ask(taught, **other) | {"calibration_revision": 0} == ask(shelf, **other)


def test_seen_memory_takes_the_place_of_the_catalog_s() -> None:
    seen = TaughtShelf(*(memory_row(probe, TOTAL) for probe in range(1, 6)))
    answer = ask(seen)

    assert answer["question"]["memory_bytes"] == answer["ledger"]["memory_bytes"] == TOTAL
    assert answer["taken"]["memory_bytes"] == "calibrated"
    assert any("under drivers 580.95.05" in line for line in answer["assumptions"])
    assert ask(seen, memory_bytes=80 * GIB)["ledger"]["memory_bytes"] == 80 * GIB


def test_the_textbook_stays_exact(shelf: Shelf) -> None:
    everything = TaughtShelf(*fleet(BEYOND), *(memory_row(probe, TOTAL) for probe in range(1, 6)))
    plain = {"engine": "none"}
    question = {name: value for name, value in ASKED.items() if name != "engine_version"} | plain

    assert fit(resolve(question, everything), everything) | {"calibration_revision": 0} == fit(
        resolve(question, shelf), shelf
    )


def test_a_changed_card_is_quoted_from_the_catalog_until_it_was_compared_again(taught: Shelf, shelf: Shelf) -> None:
    outdated = TaughtShelf()
    outdated.calibration = Calibration(7, 1, taught.calibration.values, frozenset({H100}))

    answer = ask(outdated)

    assert answer["max_sequences"] == ask(shelf)["max_sequences"]
    assert answer["calibration"] is None
    assert any("compared again" in line for line in answer["assumptions"])


def test_a_question_that_is_refused_is_refused_with_what_was_learned_too(taught: Shelf) -> None:
    with pytest.raises(QuoteError):
        ask(taught, tensor_parallel=3)


@pytest.mark.parametrize("engine, version", [("sglang", "0.5.5"), ("tensorrt-llm", "1.0.0")])
@pytest.mark.parametrize("beyond", [BEYOND, -0.4 * GIB])
def test_other_engines_with_a_reserve_are_calibrated_alike(
    shelf: Shelf, engine: str, version: str, beyond: float
) -> None:
    taught = TaughtShelf(*fleet(beyond, engine=engine, version=version))
    asked = {"engine": engine, "engine_version": version}
    before, after = ask(shelf, **asked), ask(taught, **asked)

    assert parts(before)["kv_cache"] - parts(after)["kv_cache"] == pytest.approx(beyond, rel=0.1)
    assert after["taken"]["reserve_bytes"] == "calibrated"
    assert "calibrated" in {part["source"] for part in after["ledger"]["parts"]}
    assert "20 probes" in after["interval"]["basis"]
    check_agrees(after)
    for lever in after["levers"]:
        assert ask(taught, **asked, **lever["change"])["max_sequences"] == lever["max_sequences"]


def test_an_engine_that_allocates_what_it_is_told_has_no_reserve_to_learn() -> None:
    row = capacity_row(1, 0.0)
    row["software"] = {"engine": "llama.cpp", "engine_version": "b6000"}

    assert observe(row, SHELF) is None
