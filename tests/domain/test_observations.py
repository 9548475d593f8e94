"""What single rows teach, and which of them teach nothing."""

from dataclasses import replace
from typing import Any

import pytest

from service.domain import observations
from service.domain.calibration import Quantity, Scope
from service.domain.gpu import Gpu
from service.domain.learning import learn
from service.domain.observations import observe
from service.domain.question import resolve
from service.domain.scopes import scope_of
from service.domain.taught import said
from service.domain.traffic_quote import traffic
from tests.domain.conftest import Shelf
from tests.domain.test_taught_quotes import TaughtShelf
from tests.domain.test_taught_times import step_row
from tests.fleet import GIB, H100, MODEL, RELEASE, SHELF, capacity_row, fleet, memory_row, modelled, rate_row, samples

POOL, TOKENS = modelled(H100, RELEASE, MODEL, 8192, 1)
KV_RATE = 131_072
MIXTURE = {"model": "mixtral-8x7b-instruct-v0.1"}


def told(row: dict[str, Any], quantity: Quantity = Quantity.RESERVE) -> float:
    found = observe(row, SHELF)
    assert found is not None
    return found[1][quantity].beyond


def test_tokens_say_the_pool_more_exactly_than_rounded_bytes() -> None:
    row = capacity_row(1, 0.002 * GIB, kv_capacity_tokens=TOKENS)

    assert told(row) == pytest.approx(0, abs=1)


def test_tokens_that_contradict_the_bytes_are_not_believed() -> None:
    assert told(capacity_row(1, 1.0 * GIB, kv_capacity_tokens=TOKENS // 2)) == pytest.approx(1.0 * GIB, rel=0.01)


def test_tokens_alone_suffice() -> None:
    row = capacity_row(1, 0.0)
    row["values"] = {"kv_capacity_tokens": TOKENS // 2}

    assert told(row) == pytest.approx(POOL / 2, rel=0.01)


def test_cards_of_one_kind_in_a_list_are_the_same_as_how_many_there_are() -> None:
    counted, listed, wrong, mixed = (capacity_row(1, 0.0) for _ in range(4))
    for row, setup in (
        (counted, {"gpu_count": 2}),
        (listed, {"gpus": [H100, H100]}),
        (wrong, {"gpus": [H100, H100], "gpu_count": 4}),
        (mixed, {"gpus": [H100, "a10"]}),
    ):
        row["setup"] = {**{k: v for k, v in row["setup"].items() if k != "tensor_parallel"}, **setup}

    found = observe(counted, SHELF)
    assert found is not None
    assert observe(listed, SHELF) == found
    assert (observe(wrong, SHELF), observe(mixed, SHELF)) == (None, None)


def test_parts_that_the_engine_separates_are_learned_apart() -> None:
    row = capacity_row(1, 1.0 * GIB, activation_bytes=3 * GIB, other_bytes=2 * GIB, weight_bytes=17 * GIB)
    found = observe(row, SHELF)

    assert found is not None
    assert {Quantity.RESERVE, Quantity.ACTIVATIONS, Quantity.RUNTIME, Quantity.WEIGHTS} == set(found[1])
    assert found[1][Quantity.ACTIVATIONS].measured == 3 * GIB
    assert found[1][Quantity.WEIGHTS].beyond == pytest.approx(2.04 * GIB, rel=0.02)


def test_what_the_process_saw_of_the_device_is_no_fault_of_the_reserve() -> None:
    row = capacity_row(1, 0.0)
    seen = SHELF.gpu(H100).visible_bytes or 0
    row["gpu"]["memory_bytes"] = seen - GIB

    assert told(row) == pytest.approx(-0.9 * GIB, rel=0.01)


def test_a_cache_s_rate_is_compared_by_slope_or_as_told() -> None:
    slope = {**capacity_row(1, 0.0), "kind": "kv_allocation", "values": {"tokens": [0, 100], "bytes": [7, 13_107_207]}}
    rate = {**slope, "values": {"bytes_per_token": KV_RATE * 1.01}}
    setup = {"model": MODEL, "context_tokens": 8192}

    assert told({**slope, "setup": setup}, Quantity.BYTES_PER_TOKEN) == 0
    assert told({**rate, "setup": setup}, Quantity.BYTES_PER_TOKEN) == pytest.approx(0.01)


def test_some_layers_of_a_model_of_equal_ones_stand_for_all() -> None:
    whole = step_row(1, 0.016)
    part = step_row(1, 0.001)
    part["values"]["layers_timed"] = 2

    assert told(part, Quantity.STEP) == pytest.approx(told(whole, Quantity.STEP), abs=0.15)


def test_copies_of_layers_beyond_those_of_the_model_are_no_slow_step() -> None:
    whole, copies = step_row(1, 0.016), step_row(1, 0.032)
    copies["values"]["layers_timed"] = 2 * SHELF.model(MODEL).architecture.layers

    assert told(copies, Quantity.STEP) == pytest.approx(told(whole, Quantity.STEP), abs=0.15)


@pytest.mark.parametrize(
    "row",
    [
        {**memory_row(1, 80 * GIB), "values": {"total_bytes": 80 * GIB, "memory_kind": "unified"}},
        rate_row(1, "matmul_rate", flops_per_second=1e14, dtype="bf16", m=64),
        rate_row(1, "matmul_rate", flops_per_second=1e14, dtype="int3"),
        rate_row(1, "all_reduce", bytes=1 << 20, ranks=4, seconds=1e-4),
        {**step_row(1, 0.1), "setup": MIXTURE, "values": {"seconds": 1, "layers_timed": 2}},
        {**step_row(1, 0.1), "software": {"engine": "vllm"}},
        {**capacity_row(1, 0.0), "software": {}},
        {**capacity_row(1, 0.0), "gpu": {"name": H100, "memory_bytes": 20 * GIB}},
    ],
    ids=(
        *("memory of another kind", "small matrices", "an unknown type", "a message of middle size"),
        *("layers that differ", "no release", "no engine", "a cache that does not fit"),
    ),
)
def test_a_row_without_anything_to_compare_teaches_nothing(row: dict[str, Any]) -> None:
    assert observe(row, SHELF) is None


def test_a_step_that_guesses_tokens_is_no_step_of_the_model() -> None:
    row = step_row(1, 0.016)
    guessed = {**row, "setup": {**row["setup"], "speculative_method": "eagle3", "speculative_tokens": 3}}

    assert observe(row, SHELF) is not None
    assert observe(guessed, SHELF) is None


def test_a_step_with_adapters_is_no_step_of_the_model() -> None:
    row = step_row(1, 0.016)
    adapted = {**row, "setup": {**row["setup"], "model": "llama-3.1-8b-instruct"}}
    with_slots = {**adapted, "setup": {**adapted["setup"], "max_loras": 4}}

    assert observe(adapted, SHELF) is not None
    assert observe(with_slots, SHELF) is None


def test_a_card_without_a_listed_rate_has_no_step_to_compare() -> None:
    class Unlisted(Shelf):
        def gpu(self, name: str, pointer: str = "/gpu") -> Gpu:  # type: ignore[override]  # the shelf's own is cached
            return replace(SHELF.gpu(name, pointer), bandwidth_bytes_per_second=None)

    for row in (step_row(1, 0.1), rate_row(1, "memory_bandwidth", bytes_per_second=2e12)):
        assert observe(row, Unlisted()) is None


def test_a_row_without_a_driver_is_on_no_rung_of_drivers() -> None:
    row = memory_row(1, 80 * GIB)
    del row["gpu"]["driver"]

    assert {value.rung for value in learn(samples([row])).values()} == {"gpu"}


class Held(Shelf):
    """The shelf, with other limits of what is compared."""

    def __init__(self, **limits: object) -> None:
        super().__init__()
        textbook: Any = super().engine("none")
        self._textbook = replace(textbook, limits=textbook.limits._replace(**limits) if limits else None)

    def engine(self, name: str) -> Any:  # type: ignore[override]  # noqa: ANN401  # not kept as the shelf keeps it
        return self._textbook if name == "none" else super().engine(name)


def sum_row(size: int) -> dict[str, Any]:
    return rate_row(1, "all_reduce", bytes=size, ranks=2, seconds=1e-3)


@pytest.mark.parametrize(
    "limits, row",
    [
        ({"other_size": 0.01}, {**capacity_row(1, 1.0 * GIB), "gpu": {"name": H100, "memory_bytes": 82_000_000_000}}),
        ({"least_matmul_side": 8192}, rate_row(1, "matmul_rate", flops_per_second=6e14, dtype="bf16", m=4096)),
        ({"small_message_bytes": 1}, sum_row(1 << 18)),
        ({"large_message_bytes": 1 << 23}, sum_row(1 << 22)),
    ],
    ids=["memory", "product", "small sum", "large sum"],
)
def test_what_is_compared_at_all_stands_in_the_catalog(limits: dict[str, object], row: dict[str, Any]) -> None:
    assert observe(row, SHELF) is not None
    assert observe(row, Held(**limits)) is None


def test_where_the_catalog_does_not_say_nothing_is_compared() -> None:
    assert observe(sum_row(1 << 18), Held()) is None


def test_sizes_are_learned_in_bytes_and_rates_in_shares() -> None:
    assert {quantity.unit for quantity in Quantity} == {"bytes", "share"}
    assert Quantity.RESERVE.unit == Quantity.VISIBLE_MEMORY.unit == "bytes"


def test_what_rows_share_is_worked_out_once_and_not_kept_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "_MEMO", 2)
    memo: observations.Memo = {}
    for number, context in enumerate((1024, 1024, 2048, 4096)):
        observe(capacity_row(1, 0.0, number=number, context=context), SHELF, memo)

    assert len(memo) == 1


def test_a_question_without_a_card_is_under_no_circumstances() -> None:
    taught = TaughtShelf(*fleet(1.0 * GIB))
    asked = {"model": MODEL, "memory_bytes": 80 * GIB, "engine": "vllm", "context_tokens": 4096}
    question = resolve(asked, taught)

    assert scope_of(question) == Scope()
    assert not question.taught
    assert traffic(resolve(asked, taught), taught)["efficiency"] is None


def test_another_release_than_those_that_were_measured_is_said() -> None:
    learned = next(iter(TaughtShelf(*fleet(1.0 * GIB)).calibration.values.values()))

    assert f"none of them of release 9.9: of {RELEASE}" in said(learned, Scope(gpu=H100, version="9.9"))


def test_what_rows_share_is_remembered_and_not_all_of_it_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observations, "_MEMO", 8)
    memo: observations.Memo = {}
    row = capacity_row(1, 1.0 * GIB)
    sizes = []
    for number in range(20):
        observe({**row, "setup": {**row["setup"], "context_limit_tokens": 8192 + number}}, SHELF, memo)
        sizes.append(len(memo))

    assert max(sizes) == 8
    assert observe(row, SHELF, memo) == observe(row, SHELF)
