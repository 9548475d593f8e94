"""Names that cards of several sizes share, where the memory beside them says which card it is."""

from functools import cache
from typing import Any

import pytest

from service.domain.errors import UnknownGpu
from service.domain.gpu import Gpu
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.test_log_answer import BY_NAME, LLAMA, Cards, answer

SHARED = "NVIDIA GeForce RTX 3080"
SIZES = ("rtx-3080-10gb", "rtx-3080-12gb")
ASKED = {"model": LLAMA, "weight_dtype": "int4", "context_tokens": 4096}
LOG = BY_NAME["llama.cpp-b5600"].text.replace("RTX 4090", "RTX 3080")


class Sized(Cards):
    """Two cards of one name."""

    @cache  # noqa: B019  # one shelf lives as long as the tests
    def sized_gpus(self, name: str) -> tuple[Gpu, ...]:
        return tuple(map(self.gpu, SIZES)) if name == SHARED else ()


SHELF = Sized()


def ask(**asked: Any) -> dict[str, Any]:  # noqa: ANN401  # as questions are
    return fit(resolve({**ASKED, **asked}, SHELF), SHELF)


def visible(card: str) -> int:
    found = SHELF.gpu(card).visible_bytes
    assert found is not None
    return found


@pytest.mark.parametrize("card", SIZES)
def test_the_memory_says_which_card_it_is(card: str) -> None:
    gpu = SHELF.gpu(card)
    for size in (visible(card), gpu.driver_total_bytes, gpu.advertised_bytes, visible(card) * 98 // 100):
        found = ask(gpu=SHARED, memory_bytes=size)
        assert (found["gpu"]["id"], found["ledger"]["memory_bytes"]) == (card, size)
        assert f"'{SHARED}' is taken for {gpu.name}, which has the {size:,} bytes of memory" in found["assumptions"]


@pytest.mark.parametrize("size", [None, 11_200_000_000, 24_000_000_000, 1])
def test_without_a_memory_of_one_of_them_the_cards_are_named(size: int | None) -> None:
    with pytest.raises(UnknownGpu, match="is the name of 2 cards") as refusal:
        ask(gpu=SHARED, **({} if size is None else {"memory_bytes": size}))
    assert [(fault.pointer, fault.nearest) for fault in refusal.value.faults] == [("/gpu", SIZES)]


def test_a_name_that_nobody_has_stays_unknown() -> None:
    with pytest.raises(UnknownGpu, match="no RTX 9999"):
        ask(gpu="RTX 9999", memory_bytes=visible(SIZES[0]))


def test_each_of_several_cards_has_its_own_memory() -> None:
    sizes = [visible(card) for card in SIZES]
    found = ask(engine="llama.cpp", gpus=[SHARED, SHARED], gpus_memory_bytes=sizes)
    assert [card["id"] for card in found["gpus"]] == list(SIZES)

    alike = ask(engine="llama.cpp", gpus=[SHARED, SHARED], memory_bytes=sizes[1])
    assert (alike["gpu"]["id"], alike["gpu"]["count"]) == (SIZES[1], 2)
    assert sum("is taken for" in line for line in alike["assumptions"]) == 1


def test_one_of_several_cards_that_cannot_be_told_is_named_by_its_place() -> None:
    with pytest.raises(UnknownGpu) as refusal:
        ask(engine="llama.cpp", gpus=[SIZES[0], SHARED], gpus_memory_bytes=[visible(SIZES[0]), 10**9])
    assert [(fault.pointer, fault.nearest) for fault in refusal.value.faults] == [("/gpus/1", SIZES)]


@pytest.mark.parametrize("card, printed", [(SIZES[0], 9867), (SIZES[1], 12117)])
def test_the_memory_that_llama_cpp_prints_of_its_only_device_says_it_too(card: str, printed: int) -> None:
    log = LOG.replace("found 1 CUDA devices:", f"found 1 CUDA devices (Total VRAM: {printed} MiB):")

    found = answer(SHELF, log, model=LLAMA)

    assert found["said"]["memory_bytes"] == printed << 20
    assert found["quote"]["gpu"]["id"] == card
    assert any(f"'{SHARED}' is taken for" in warning for warning in found["warnings"])
    assert not any("is taken for" in line for line in answer(SHELF, log, model=LLAMA, gpu="rtx-4090")["warnings"])


def test_a_log_that_prints_no_memory_leaves_the_card_to_be_given() -> None:
    found = answer(SHELF, LOG, model=LLAMA)

    assert found["quote"] is None
    assert found["unquoted"]["errors"][0]["nearest"] == list(SIZES)


def test_memory_of_several_devices_together_is_no_devices() -> None:
    log = LOG.replace("found 1 CUDA devices:", "found 2 CUDA devices (Total VRAM: 12117 MiB):")

    assert answer(SHELF, log, model=LLAMA)["said"]["memory_bytes"] is None


def test_a_log_of_an_engine_that_prints_both_is_of_that_card() -> None:
    log = BY_NAME["vllm-0.11.0-journald-colours"].text

    assert answer(SHELF, log, gpu=SHARED, memory_bytes=visible(SIZES[1]))["quote"]["gpu"]["id"] == SIZES[1]
