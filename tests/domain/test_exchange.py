"""What ranks send each other in a step: how many messages, how large, and how long they take."""

from typing import Any

import pytest

from service.domain.holding import hold
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Ask, Shelf

LLAMA = {"model": "llama-3.1-70b-instruct", "gpu": "h100-sxm-80gb", "context_tokens": 4096, "batch_size": 32}
DEEPSEEK = {
    "model": "deepseek-v3",
    "gpu": "h200-sxm-141gb",
    "engine": "sglang",
    "context_tokens": 4096,
    "batch_size": 64,
    "tensor_parallel": 8,
}
SPREAD = {**DEEPSEEK, "attention_data_parallel": 8, "expert_parallel": True}


def sent(answer: dict[str, Any]) -> dict[str, tuple[int, int]]:
    return {row["kind"]: (row["messages"], row["bytes_per_message"]) for row in answer["communication"]}


def test_one_gpu_sends_nothing(ask_traffic: Ask) -> None:
    assert ask_traffic(**LLAMA)["communication"] == []


def test_tensor_parallel_adds_up_twice_a_layer(ask_traffic: Ask) -> None:
    assert sent(ask_traffic(**LLAMA, tensor_parallel=4)) == {"all_reduce": (160, 32 * 8192 * 2)}


def test_experts_spread_over_ranks_that_have_all_tokens_need_no_all_to_all(ask_traffic: Ask) -> None:
    sliced, spread = (ask_traffic(**DEEPSEEK, expert_parallel=spread) for spread in (False, True))
    assert sent(sliced) == sent(spread) == {"all_reduce": (122, 64 * 7168 * 2)}


def test_tokens_of_a_rank_go_to_their_experts_and_back(ask_traffic: Ask) -> None:
    """58 layers of experts, to 8 of them each; the 3 dense layers gather all tokens and scatter the sums."""
    answer = ask_traffic(**SPREAD)
    assert sent(answer) == {
        "all_to_all": (116, 8 * 8 * 7168 * 2),
        "all_gather": (3, 64 * 7168 * 2),
        "reduce_scatter": (3, 64 * 7168 * 2),
    }
    assert "116 all-to-alls x (27.0 us + 917,504 B at 360.0 GB/s) = 3.428 ms" in answer["derivation"]


def test_gathering_and_scattering_take_what_one_all_reduce_moves(ask_traffic: Ask) -> None:
    grouped, plain = (ask_traffic(**DEEPSEEK, attention_data_parallel=n) for n in (8, 1))
    assert set(sent(grouped)) == {"all_gather", "reduce_scatter"}
    moved, reduced = (sum(row["seconds"] for row in answer["communication"]) for answer in (grouped, plain))
    assert reduced / 2 < moved < reduced


def test_groups_of_several_ranks_also_add_their_attention_up(ask_traffic: Ask) -> None:
    assert sent(ask_traffic(**DEEPSEEK, attention_data_parallel=2))["all_reduce"] == (61, 32 * 7168 * 2)


def test_stages_pass_the_hidden_states_on(ask_traffic: Ask) -> None:
    one, four = (ask_traffic(**LLAMA, pipeline_parallel=n) for n in (1, 4))
    assert sent(four) == {"send": (3, 32 * 8192 * 2)}
    assert four["step"]["communication_seconds"] == four["communication"][0]["seconds"] > 0
    assert four["step"]["seconds"] == pytest.approx(one["step"]["seconds"], rel=0.01)


def test_shared_out_contexts_gather_queries(ask_traffic: Ask) -> None:
    question = {**LLAMA, "engine": "vllm", "tensor_parallel": 16}
    plain, shared = (ask_traffic(**question, decode_context_parallel=n) for n in (1, 2))
    assert sent(shared)["all_gather"] == (80, 32 * 64 * 128 // 16 * 2 * 2)
    assert shared["rank"]["cache_traffic_bytes"] * 2 == plain["rank"]["cache_traffic_bytes"]


def test_replicas_of_vllm_share_one_set_of_experts(ask_traffic: Ask, shelf: Shelf) -> None:
    """Each reads what its ledger has of them, touched by the tokens of all, which are gathered and scattered."""
    question = DEEPSEEK | {"engine": "vllm", "tensor_parallel": 1, "expert_parallel": True, "batch_size": 4096}
    alone, shared = (ask_traffic(**question, data_parallel=n) for n in (1, 8))
    assert sent(shared) == {"all_gather": (58, 8 * 4096 * 7168 * 2), "reduce_scatter": (58, 8 * 4096 * 7168 * 2)}
    ledgers = [fit(resolve(question | {"data_parallel": n}, shelf), shelf)["ledger"]["parts"] for n in (1, 8)]
    held = [next(part["bytes"] for part in parts if part["name"] == "weights") for parts in ledgers]
    read = [answer["rank"]["weight_traffic_bytes"] for answer in (alone, shared)]
    assert read[0] - read[1] == pytest.approx(held[0] - held[1], rel=1e-6)
    assert shared["step"]["communication_seconds"] > 0
    assert shared["step"]["memory_seconds"] < alone["step"]["memory_seconds"]


def test_links_through_the_host_are_slower_than_nvlink(ask_traffic: Ask) -> None:
    fast, slow = (ask_traffic(**LLAMA | {"gpu": gpu}, tensor_parallel=4) for gpu in ("h100-sxm-80gb", "l40s"))
    assert sent(fast) == sent(slow)
    assert slow["step"]["communication_seconds"] > 10 * fast["step"]["communication_seconds"]


@pytest.mark.parametrize("asked", [DEEPSEEK, SPREAD, {**LLAMA, "tensor_parallel": 2, "pipeline_parallel": 2}])
def test_the_rows_add_up_to_the_steps_term(ask_traffic: Ask, asked: dict[str, Any]) -> None:
    answer = ask_traffic(**asked)
    total = sum(row["seconds"] for row in answer["communication"])
    assert answer["step"]["communication_seconds"] == pytest.approx(total)
    assert all(row["bytes"] == row["messages"] * row["bytes_per_message"] for row in answer["communication"])


def test_without_rates_there_are_bytes_and_no_seconds(ask_traffic: Ask) -> None:
    question = {"model": "llama-2-7b", "memory_bytes": 80_000_000_000, "batch_size": 4, "tensor_parallel": 2}
    assert ask_traffic(**question)["communication"] == [
        {"kind": "all_reduce", "messages": 64, "bytes_per_message": 32768, "bytes": 64 * 32768, "seconds": None}
    ]


def test_groups_read_the_caches_of_their_own_sequences(ask_traffic: Ask) -> None:
    """A latent cache is whole on every rank of tensor parallel; groups of one rank have an eighth of the sequences."""
    together, apart = (ask_traffic(**DEEPSEEK, attention_data_parallel=n)["rank"] for n in (1, 8))
    assert apart["cache_traffic_bytes"] * 8 == together["cache_traffic_bytes"]
    assert apart["weight_traffic_bytes"] > together["weight_traffic_bytes"]


def test_groups_read_of_a_sequence_what_the_ledger_has_of_it(ask_traffic: Ask, shelf: Shelf) -> None:
    question = {**DEEPSEEK, "attention_data_parallel": 4, "batch_size": 4}
    held = hold(resolve(question, shelf)).load
    assert ask_traffic(**question)["rank"]["cache_traffic_bytes"] == held.sequence_bytes(4096)


def test_a_step_waits_for_the_rank_whose_experts_most_tokens_touch(ask_traffic: Ask) -> None:
    question = {"model": "qwen3-235b-a22b", "gpu": "h200-sxm-141gb", "context_tokens": 512, "tensor_parallel": 8}
    few, many = (
        tuple(
            ask_traffic(**question, batch_size=batch, expert_parallel=spread)["step"]["memory_seconds"]
            for spread in (False, True)
        )
        for batch in (4, 4096)
    )
    assert few[1] > 1.2 * few[0]
    assert many[1] == pytest.approx(many[0], rel=0.02)


def test_where_every_layer_has_experts_nothing_is_gathered(ask_traffic: Ask) -> None:
    """48 layers, to 8 experts of 128; each of four ranks attends to 4 of 16 sequences."""
    question = {"model": "qwen3-30b-a3b", "gpu": "h100-sxm-80gb", "engine": "sglang", "context_tokens": 4096}
    apart = {"tensor_parallel": 4, "attention_data_parallel": 4, "expert_parallel": True}

    answer = ask_traffic(**question, **apart, batch_size=16)

    assert sent(answer) == {"all_to_all": (96, 4 * 8 * 2048 * 2)}
