"""`cpu_tensors`: tensors that stay in host memory by their names, as with llama.cpp's --override-tensor."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.domain.errors import NotSupported
from tests.domain.agreement import ask, check_agrees, check_levers, parts
from tests.domain.conftest import Ask

MOE = {"model": "qwen3-30b-a3b", "engine": "llama.cpp", "weight_dtype": "q8_0", "context_tokens": 8192}
MOE |= {"memory_bytes": 10**11}
DENSE = MOE | {"model": "llama-3.1-8b-instruct"}
MATRIX = 2048 * 768 * 128 * 34 // 32


def weights(ask_fit: Ask, *patterns: str, **question: Any) -> int:  # noqa: ANN401
    more = {"cpu_tensors": list(patterns)} if patterns else {}
    return parts(ask_fit(**(MOE | question), **more))["weights"]


@pytest.mark.parametrize(
    "pattern,matrices",
    [
        ("exps", 48 * 3),
        (r"\.ffn_.*_exps\.", 48 * 3),
        (".ffn_(up)_exps.", 48),
        (r"\.ffn_(up|down)_exps\.", 48 * 2),
        (r"blk\.(1[0-9])\.ffn_.*_exps", 10 * 3),
        (r"blk\.(?:[0-9]|1[0-9])\.ffn_(gate|down)_exps\.weight$", 20 * 2),
        (r"\.(6|7|8|9|[0-9][0-9]|[0-9][0-9][0-9])\.ffn_(gate|up|down)_exps.", 42 * 3),
    ],
)
def test_what_matches_is_not_on_the_device(ask_fit: Ask, pattern: str, matrices: int) -> None:
    assert weights(ask_fit) - weights(ask_fit, pattern) == matrices * MATRIX


def test_a_router_and_a_norm_go_along(ask_fit: Ask) -> None:
    """128 x 2,048 weights in 32 bits, and a vector of 2,048 of them, of ten layers."""
    experts, everything = (weights(ask_fit, rf"blk\.(1[0-9])\.ffn_.*{end}") for end in ("_exps", ""))

    assert experts - everything == 10 * 4 * (128 * 2048 + 2048)


def test_patterns_add_up_and_match_once(ask_fit: Ask) -> None:
    up, down, both = "ffn_up_exps", "ffn_down_exps", r"ffn_(up|down)_exps"

    assert weights(ask_fit, up, down) == weights(ask_fit, both) == weights(ask_fit, up, down, both)
    assert weights(ask_fit, "exps", cpu_expert_layers=7) == weights(ask_fit, "exps")


def test_experts_of_all_layers_are_those_of_the_flag(ask_fit: Ask) -> None:
    for model in ("qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite"):
        question = MOE | {"model": model, "weight_dtype": "q4_k_m"}
        by_name, by_count = ask_fit(**question, cpu_tensors=["exps"]), ask_fit(**question, cpu_expert_layers=-1)
        assert by_name["ledger"] == by_count["ledger"]


def test_biases_of_experts_go_with_them(ask_fit: Ask) -> None:
    """gpt-oss: three matrices and three vectors of 32 experts a layer, the vectors in 32 bits."""
    question = {"model": "gpt-oss-20b", "weight_dtype": "mxfp4_moe"}
    matrices, vectors = 3 * 32 * 2880 * 2880 * 17 // 32, 3 * 32 * 2880 * 4

    assert weights(ask_fit, **question) - weights(ask_fit, "exps", **question) == 24 * (matrices + vectors)
    assert weights(ask_fit, **question) - weights(ask_fit, r"exps\.weight", **question) == 24 * matrices


def test_dense_layers_are_named_too(ask_fit: Ask) -> None:
    held = [weights(ask_fit, *names, model=DENSE["model"]) for names in ((), ("ffn_down",))]

    assert held[0] - held[1] == 32 * 4096 * 14336 * 34 // 32
    answer = ask_fit(**DENSE, cpu_tensors=["ffn_down"])
    assert any("matrices of 32 of 32 layers stay on the host" in warning for warning in answer["warnings"])


def test_what_matches_nothing_is_said(ask_fit: Ask, ask_traffic: Ask) -> None:
    for ask_one in (ask_fit, ask_traffic):
        told, silent = (ask_one(**MOE, cpu_tensors=[pattern])["warnings"] for pattern in ("foo.*", "exps"))
        assert any("match no tensor of" in warning for warning in told)
        assert not any("match no tensor" in warning for warning in silent)


def test_what_matches_nothing_changes_nothing(ask_fit: Ask) -> None:
    assert weights(ask_fit, "blk.99.ffn_up_exps") == weights(ask_fit)


@pytest.mark.parametrize(
    "model,pattern,said",
    [
        ("qwen3-30b-a3b", ".*", "matches blk.0.attn_output.weight too"),
        ("qwen3-30b-a3b", "^output", "matches output.weight too"),
        ("qwen3-30b-a3b", r"blk\.1\.", "matches blk.1.attn_output.weight too"),
        ("qwen3-30b-a3b", "attn_k", "matches blk.0.attn_k.weight too"),
        ("gpt-oss-20b", r"\.ffn_.*", "matches blk.0.ffn_gate_inp.weight too"),
        ("phi-3-mini-4k-instruct", "ffn_up", "matches blk.0.ffn_up.weight too"),
        ("qwen3-30b-a3b", "(exps)+", "repeats a group"),
        ("qwen3-30b-a3b", "|".join(["....zq"] * 28), "takes too long to follow"),
    ],
)
def test_what_is_not_described_is_refused_by_its_place(ask_fit: Ask, model: str, pattern: str, said: str) -> None:
    patterns = ["exps", *[pattern] * (50 if "long" in said else 1)]
    with pytest.raises(NotSupported) as refusal:
        ask_fit(**MOE | {"model": model}, cpu_tensors=patterns)

    assert refusal.value.faults[0].pointer.startswith("/cpu_tensors/")
    assert said in refusal.value.faults[0].detail


@pytest.mark.parametrize("engine", ["none", "vllm", "sglang", "tensorrt-llm"])
def test_other_engines_have_no_such_name(ask_fit: Ask, engine: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        ask_fit(model="qwen3-30b-a3b", engine=engine, gpu="h100-sxm-80gb", context_tokens=4096, cpu_tensors=["exps"])

    assert [fault.pointer for fault in refusal.value.faults] == ["/cpu_tensors"]


def test_every_lever_gives_what_it_says() -> None:
    question = MOE | {"cpu_tensors": [r"blk\.[0-9]\.ffn_.*_exps"], "memory_bytes": 3 * 10**10}
    answer = ask(question)

    assert answer is not None
    check_levers(question, answer)


QUESTIONS = st.fixed_dictionaries(
    {
        "model": st.sampled_from(["qwen3-30b-a3b", "gpt-oss-20b", "deepseek-v2-lite", "llama-3.1-8b-instruct"]),
        "engine": st.just("llama.cpp"),
        "memory_bytes": st.integers(1 << 30, 1 << 36),
        "context_tokens": st.integers(1, 1 << 15),
        "weight_dtype": st.sampled_from(["q8_0", "q4_k_m"]),
        "cpu_tensors": st.lists(
            st.sampled_from(["exps", "ffn_down", r"blk\.[0-9]\.ffn_(up|gate)", "shexp", r"_exps\.bias"]), min_size=1
        ),
    },
    optional={
        "engine_version": st.sampled_from(["b3000", "b8101", "b9538", "b11549"]),
        "gpu_count": st.integers(1, 3),
        "gpu_layers": st.integers(-1, 50),
        "cpu_expert_layers": st.integers(0, 20),
    },
)


@settings(max_examples=40)
@given(QUESTIONS)
def test_the_ledger_closes_and_the_answer_agrees_with_itself(question: dict[str, Any]) -> None:
    if answer := ask(question):
        check_agrees(answer)
        assert parts(answer)["weights"] <= answer["weight_bytes"]
