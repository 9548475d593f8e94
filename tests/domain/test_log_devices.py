"""Of several devices the one that is quoted is compared, or a warning says why none is."""

from typing import Any

import pytest

from service.domain.logs import read
from tests.domain.test_log_answer import BY_NAME, LLAMA, TWO_CARDS, Cards, answer, part

A6000S = BY_NAME["llama.cpp-b6500-windows-two-gpus"].text
GIVEN: dict[str, Any] = {"model": "gemma-3-27b-it", "weight_dtype": "q4_k_m"}


def compared(found: dict[str, Any]) -> dict[str, tuple[str, int]]:
    return {row["part"]: (row["worker"], row["said_bytes"]) for row in found["comparison"]}


def not_compared(found: dict[str, Any]) -> list[str]:
    assert found["comparison"] == []
    return [warning for warning in found["warnings"] if "were not compared" in warning]


def test_the_quoted_device_is_compared() -> None:
    found = answer(Cards(), A6000S, **GIVEN)

    own = found["per_rank"][found["quote"]["rank"]["index"]]
    assert own["worker"] == "CUDA1"
    assert compared(found) == {
        "weights": ("CUDA1", own["said"]["weight_bytes"]),
        "activations": ("CUDA1", own["said"]["activation_bytes"]),
        "kv_cache": ("CUDA1", own["said"]["kv_cache_bytes"]),
    }
    assert abs(part(found, "weights")["relative"]) < 0.02
    assert part(found, "kv_cache")["difference_bytes"] == 0
    assert found["said"]["weight_bytes"] is None
    assert {each["reason"] for each in found["left_out"]} == {"each of the 2 devices has its own; see what each says"}


def test_devices_are_matched_in_the_order_in_which_they_were_chosen() -> None:
    lines = A6000S.splitlines(keepends=True)
    first, second = (next(at for at, line in enumerate(lines) if f"using device CUDA{n}" in line) for n in (0, 1))
    lines[first], lines[second] = lines[second], lines[first]

    found = answer(Cards(), "".join(lines), **GIVEN)

    assert found["quote"]["rank"]["index"] == 1
    assert {worker for worker, _ in compared(found).values()} == {"CUDA0"}


def test_one_device_chosen_among_several_is_compared() -> None:
    given = {"model": "granite-4.1-8b", "weight_dtype": "q8_0"}

    found = answer(Cards(), BY_NAME["llama.cpp-b9106-chosen-device"].text, **given)

    assert found["question"]["gpus"] is None
    assert {row["worker"] for row in found["comparison"]} == {"ROCm1"}
    assert part(found, "activations")["difference_bytes"] == part(found, "kv_cache")["difference_bytes"] == 0


def test_another_number_of_cards_is_not_compared() -> None:
    found = answer(Cards(), A6000S.replace("using device", "device"), gpu="rtx-a6000", **GIVEN)

    assert not_compared(found) == [
        "The figures of the log's 2 devices were not compared: the quote is of 1; give gpu_count or gpus."
    ]


@pytest.mark.parametrize("lost", ["using device CUDA0", "using device CUDA1"])
def test_devices_without_their_lines_are_not_compared(lost: str) -> None:
    kept = "".join(line for line in A6000S.splitlines(keepends=True) if lost not in line)

    assert (
        "which of them is quoted cannot be told"
        in not_compared(answer(Cards(), kept, gpu="rtx-a6000", gpu_count=2, **GIVEN))[0]
    )


def test_cards_in_another_order_are_not_compared() -> None:
    cards = ["rtx-3090", "rtx-a6000"]

    assert "in another order" in not_compared(answer(Cards(), TWO_CARDS, model=LLAMA, gpus=cards))[0]
    assert compared(answer(Cards(), TWO_CARDS, model=LLAMA, gpus=cards[::-1])) != {}


def test_a_device_is_not_the_chosen_one_where_another_may_have_been_lost() -> None:
    kept = "".join(line for line in A6000S.splitlines(keepends=True) if "CUDA1" not in line)

    reading = read(kept.splitlines(keepends=True))

    assert len(reading.devices) == 1
    assert {"free_before_bytes", "weight_bytes", "activation_bytes"} & set(reading.said) == set()
