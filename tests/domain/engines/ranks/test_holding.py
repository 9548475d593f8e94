"""What engines with pools say of other batches, and of changes that they refuse."""

from typing import Any

import pytest

from service.domain.engines.ranks import levers
from service.domain.engines.vllm.capacity import ceiling
from service.domain.errors import NotSupported
from tests.domain.conftest import Ask

LLAMA = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096}


@pytest.mark.parametrize("more", [{"engine": "sglang"}, {"engine": "tensorrt-llm"}, {"engine": "llama.cpp"}])
def test_a_row_of_a_curve_fits_up_to_the_ceiling(ask_fit: Ask, ask_traffic: Ask, more: dict[str, Any]) -> None:
    slots = {"parallel_slots": 400} if more["engine"] == "llama.cpp" else {}
    asked = {**LLAMA, **more, **slots}
    most = ask_fit(**asked)["max_sequences"]

    curve = ask_traffic(**asked, curve_batch_sizes=[most, most + 1])["curve"]

    assert [row["fits"] for row in curve] == [True, False]


def test_a_change_that_the_engine_refuses_is_no_lever() -> None:
    class Setting:
        scenario: Any = type("Scenario", (), {"layout": type("Layout", (), {"data": 2})})

    class Held:
        sequences = 7

    def hold(changed: Any) -> Any:  # noqa: ANN401  # a setting
        if changed is refused:
            raise NotSupported.at("/kv_dtype", "no such cache")
        return Held()

    refused: Any = Setting()
    other: Any = Setting()
    candidates: list[levers.Candidate] = [
        ("smaller", {"kv_dtype": "fp8"}, refused),
        ("released", {"memory_utilization": 0.95}, other),
    ]

    assert levers.levers(candidates, hold, 10) == [
        {"move": "released", "change": {"memory_utilization": 0.95}, "max_sequences": 14, "gain": 4}
    ]
    assert levers.levers(candidates, hold, 14) == []


def test_a_change_that_vllm_refuses_is_no_lever(ask_fit: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = ask_fit(**LLAMA, engine="vllm")["levers"]

    def refusing(setting: Any, release: Any, before: Any) -> int:  # noqa: ANN401  # as the engine's own
        if setting.cache.name == "fp8":
            raise NotSupported.at("/kv_dtype", "no such cache")
        return ceiling(setting, release, before)

    monkeypatch.setattr("service.domain.engines.vllm.levers.ceiling_of", refusing)

    left = [lever for lever in usual if lever["change"] != {"kv_dtype": "fp8"}]
    assert ask_fit(**LLAMA, engine="vllm")["levers"] == left != usual
