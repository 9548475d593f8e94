"""What was asked and changes nothing is said, and the answer is that without it."""

from typing import Any

import pytest

from tests.domain.conftest import Ask

TEXT: dict[str, Any] = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine": "vllm"}
TEXT |= {"context_tokens": 8192}
PICTURES = {**TEXT, "model": "qwen2.5-vl-7b-instruct"}


def idle(answer: dict[str, Any]) -> list[str]:
    return [warning for warning in answer["warnings"] if "no effect" in warning]


@pytest.mark.parametrize(
    "asked, named",
    [
        ({"enforce_eager": True, "graph_mode": "full"}, "graph_mode has no effect: enforce_eager"),
        ({"enforce_eager": True, "graph_sizes": [1, 2]}, "graph_sizes has no effect: enforce_eager"),
        ({"graph_mode": "none", "graph_sizes": [1, 2]}, "graph_sizes has no effect: graph_mode none"),
        ({"moe_backend": "triton"}, "moe_backend has no effect: Llama-3.1-8B-Instruct has no routed experts"),
        ({"encoder_limits": ["image=2"]}, "encoder_limits has no effect: Llama-3.1-8B-Instruct takes text alone"),
        (
            {"encoder_budget_tokens": 4096, "encoder_data_parallel": True},
            "encoder_budget_tokens and encoder_data_parallel have no effect",
        ),
    ],
)
def test_what_changes_nothing_is_said(ask_fit: Ask, asked: dict[str, Any], named: str) -> None:
    answer = ask_fit(**TEXT, **asked)
    without = {
        name: value for name, value in asked.items() if name in {"enforce_eager", "graph_mode"} and value != "full"
    }

    assert [warning for warning in idle(answer) if named in warning]
    assert answer["ledger"] == ask_fit(**TEXT, **without)["ledger"]


@pytest.mark.parametrize(
    "asked",
    [
        {**TEXT, "graph_sizes": [1, 2]},
        {**TEXT, "enforce_eager": True, "graph_mode": "none"},
        {**TEXT, "moe_backend": "auto", "encoder_budget_tokens": 0, "encoder_limits": ["image=0"]},
        {**PICTURES, "encoder_limits": ["image=2"], "encoder_profiling": False},
        {**TEXT, "model": "qwen3-30b-a3b", "moe_backend": "triton"},
    ],
)
def test_what_matters_or_asks_for_nothing_is_not_told(ask_fit: Ask, asked: dict[str, Any]) -> None:
    assert idle(ask_fit(**asked)) == []
