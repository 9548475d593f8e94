"""Slots of adapters, worked by hand from the shapes that vllm/lora/layers allocates."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.domain.errors import NotSupported, ValidationError
from service.domain.question import resolve
from service.domain.quote import fit
from tests.domain.conftest import Ask, Shelf
from tests.domain.engines.vllm.conftest import Hold

H100 = {"gpu": "h100-sxm-80gb", "context_tokens": 4096}
SHELF = Shelf()
TOKENS, SEQUENCES = 8192, 1024
INDICES = 48 * TOKENS + 24 * SEQUENCES
RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512]


def slot_elements(*widths: int, rank: int, tensor: int = 1) -> int:
    """One slot of a layer on a rank, by the widths of its input, query, key and MLP.

    A is whole and B divided for qkv and gate_up, the other way round for o and down.
    """
    hidden, query, kv, inner = widths
    qkv = 3 * rank * hidden + rank * (query + 2 * kv) // tensor
    out = rank * query // tensor + rank * hidden
    gate_up = 2 * rank * hidden + 2 * rank * inner // tensor
    down = rank * inner // tensor + rank * hidden
    return qkv + out + gate_up + down


LLAMA = (4096, 4096, 1024, 14336)
QWEN = (3584, 3584, 512, 18944)


@pytest.mark.parametrize("tensor", [1, 4])
def test_llama_has_slots_in_its_layers_and_in_both_tables(quote: Hold, tensor: int) -> None:
    held = quote(**H100, model="llama-3.1-8b-instruct", max_loras=4, max_lora_rank=64, tensor_parallel=tensor)
    layers = 32 * slot_elements(*LLAMA, rank=64, tensor=tensor)
    tables = 2 * 64 * (128_256 + 4096)
    order = 8 * 128_256 if tensor > 1 else 0
    assert held.rank.adapter_bytes == 4 * 2 * (layers + tables) + order + INDICES


@pytest.mark.parametrize("tensor", [1, 4])
def test_qwen_has_slots_in_its_layers_alone(quote: Hold, tensor: int) -> None:
    held = quote(**H100, model="qwen2.5-7b-instruct", max_loras=2, tensor_parallel=tensor)
    assert held.rank.adapter_bytes == 2 * 2 * 28 * slot_elements(*QWEN, rank=16, tensor=tensor) + INDICES


def test_matrices_that_the_checkpoint_packs_share_a_factor(quote: Hold) -> None:
    """Phi-3 has one A for q, k and v and one for gate and up, where others have three and two."""
    held = quote(**H100, model="phi-3-medium-128k-instruct", max_loras=1)
    hidden, inner = 5120, 17920
    apart = slot_elements(hidden, hidden, 1280, inner, rank=16)
    layers = 40 * (apart - 2 * 16 * hidden - 16 * hidden)
    assert held.rank.adapter_bytes == 2 * (layers + 2 * 16 * (32_064 + hidden)) + INDICES


@pytest.mark.parametrize("tensor", [1, 4])
def test_every_expert_and_the_router_have_slots(quote: Hold, tensor: int) -> None:
    """Qwen3-30B-A3B: 48 layers of 128 experts, an inner width of 768, and a switch for each slot and for none."""
    held = quote(**H100, model="qwen3-30b-a3b", max_loras=2, max_lora_rank=8, tensor_parallel=tensor)
    hidden, query, kv, inner, rank = 2048, 4096, 512, 768, 8
    attention = 3 * rank * hidden + rank * (query + 2 * kv) // tensor + rank * query // tensor + rank * hidden
    expert = 2 * rank * (hidden + inner // tensor) + rank * (inner // tensor + hidden)
    layer = attention + rank * (hidden + 128) + 128 * expert
    tables = 2 * rank * (151_936 + hidden)
    order = 8 * 151_936 if tensor > 1 else 0
    assert held.rank.adapter_bytes == 2 * 2 * (48 * layer + tables) + 48 * 4 * 3 + order + INDICES


def test_slots_of_quantized_weights_are_those_of_wide_ones(quote: Hold) -> None:
    """Slots are in the type that the model computes in, whatever its weights are stored in."""
    asked = {**H100, "model": "qwen2.5-7b-instruct", "max_loras": 8, "max_lora_rank": 32}
    wide, narrow = quote(**asked), quote(**asked, weight_dtype="w4a16")
    assert narrow.rank.adapter_bytes == wide.rank.adapter_bytes
    assert narrow.rank.adapter_bytes == 8 * 2 * 28 * slot_elements(*QWEN, rank=32) + INDICES


def test_both_factors_are_divided_where_they_are_fully_sharded(quote: Hold) -> None:
    asked = {**H100, "model": "qwen2.5-7b-instruct", "max_loras": 1, "max_lora_rank": 64, "tensor_parallel": 4}
    held = quote(**asked, fully_sharded_loras=True)
    assert held.rank.adapter_bytes == 2 * 28 * slot_elements(*QWEN, rank=64) // 4 + INDICES


def test_fully_sharded_slots_can_be_asked_for(ask_fit: Ask) -> None:
    asked = {**H100, "engine": "vllm", "model": "qwen2.5-7b-instruct", "tensor_parallel": 4, "max_loras": 8}
    half, both = ask_fit(**asked), ask_fit(**asked, fully_sharded_loras=True)
    assert half["question"]["fully_sharded_loras"] is False
    assert both["kv_capacity_tokens"] > half["kv_capacity_tokens"]


def test_older_releases_keep_rows_for_added_words(quote: Hold) -> None:
    """0.11.0: 256 rows a slot in both tables, one vocabulary more in the output matrix, all rounded up to 256."""
    held = quote(**H100, model="llama-3.1-8b-instruct", max_loras=2, engine_version="0.11.0")
    hidden, words, rank = 4096, 128_256, 16
    layers = 32 * slot_elements(*LLAMA, rank=rank)
    inputs = rank * (words + 256 + hidden) + 256 * hidden
    outputs = rank * (words + 256 + hidden) + 256 * hidden
    grown = 2 * 256 * hidden + 256 * hidden
    batch = held.batch
    indices = 48 * batch.tokens + 32 * batch.sequences
    assert held.rank.adapter_bytes == 2 * (2 * (layers + inputs + outputs) + grown) + indices


def test_a_tied_table_has_its_slots_twice_for_a_while(quote: Hold) -> None:
    asked = {**H100, "model": "qwen3-0.6b", "max_loras": 1}
    twice, once = (quote(**asked, engine_version=v).rank.adapter_bytes for v in ("0.22.0", "0.28.0"))
    before = quote(**asked, engine_version="0.14.1").rank.adapter_bytes
    words, hidden = 151_936, 1024
    assert twice - once == 2 * 16 * (words + hidden)
    assert once - before == 2 * 2 * 16 * (words + hidden)


def test_each_stage_has_the_slots_of_its_own_layers(quote: Hold) -> None:
    held = quote(**H100, model="llama-3.1-8b-instruct", max_loras=1, pipeline_parallel=2)
    one = quote(**H100, model="llama-3.1-8b-instruct", max_loras=1)
    assert sum(rank.adapter_bytes for rank in held.ranks) == one.rank.adapter_bytes + INDICES
    assert [rank.adapter_bytes for rank in held.ranks] == [
        2 * (16 * slot_elements(*LLAMA, rank=16) + 16 * (128_256 + 4096)) + INDICES
    ] * 2


def test_logged_weights_have_their_slots_in_them(quote: Hold) -> None:
    """Public logs: Llama-3.1-8B with two slots (0.8.2, by the next release read), Mistral-7B-v0.2 with one (0.14.0)."""
    llama = quote(
        model="llama-3.1-8b-instruct",
        gpu="l40s",
        engine_version="0.8.5",
        max_loras=2,
        max_batched_tokens=2048,
        context_tokens=131072,
    )
    assert llama.rank.weight_bytes / 2**30 == pytest.approx(15.1749, abs=0.0005)
    asked = {"max_loras": 1, "max_sequences_limit": 256, "memory_utilization": 0.95, "context_tokens": 4096}
    mistral = quote(model="mistral-7b-instruct-v0.2", gpu="l40s", engine_version="0.14.0", **asked)
    assert round(mistral.rank.weight_bytes / 2**30, 2) == 13.58
    assert mistral.cache_bytes / 2**30 == pytest.approx(28.13, rel=0.01)


def test_slots_are_loaded_with_the_model_and_stand_by_themselves(ask_fit: Ask) -> None:
    asked = {**H100, "engine": "vllm", "model": "llama-3.1-8b-instruct"}
    without, answer = ask_fit(**asked), ask_fit(**asked, max_loras=4)
    rows, before = ({part["name"]: part for part in a["ledger"]["parts"]} for a in (answer, without))
    assert "adapters" not in before
    assert rows["weights"] == before["weights"]
    assert rows["adapters"]["note"] == "slots for 4 adapters of rank 16, allocated as the model is loaded"
    assert sum(part["bytes"] for part in answer["ledger"]["parts"]) == answer["ledger"]["memory_bytes"]
    assert any(line.startswith(f"- {rows['adapters']['bytes']:,} B adapters") for line in answer["derivation"])
    assert answer["taken"] | {"max_loras": "request", "max_lora_rank": "default"} == answer["taken"]
    assert answer["question"]["max_lora_rank"] == 16
    assert without["question"]["max_lora_rank"] is None


def test_graphs_are_captured_with_adapters_and_without(quote: Hold) -> None:
    asked = {**H100, "model": "qwen2.5-7b-instruct"}
    plain, adapted = (
        next(p for p in quote(**asked, **more).parts if p.name == "graphs") for more in ({}, {"max_loras": 1})
    )
    assert plain.span.middle < adapted.span.middle < 2 * plain.span.middle
    assert adapted.note.endswith("with adapters and without")


def test_a_lever_says_what_fewer_slots_give(ask_fit: Ask) -> None:
    asked = {"engine": "vllm", "model": "llama-3.1-8b-instruct", "gpu": "l4", "context_tokens": 4096, "max_loras": 8}
    answer = ask_fit(**asked, max_lora_rank=64)
    lever = next(each for each in answer["levers"] if each["change"] == {"max_loras": 4})
    assert lever["move"] == "smaller"
    assert ask_fit(**{**asked, "max_loras": 4}, max_lora_rank=64)["max_sequences"] == lever["max_sequences"]


def test_the_kernels_that_the_engine_chooses_can_be_asked_for_by_name(quote: Hold) -> None:
    asked = {**H100, "model": "qwen3-30b-a3b", "max_loras": 1}
    assert quote(**asked, moe_backend="auto").rank == quote(**asked).rank


@pytest.mark.parametrize(
    "asked, pointer, words",
    [
        ({"max_lora_rank": 16}, "/max_lora_rank", "give max_loras too"),
        ({"max_lora_rank": 0}, "/max_lora_rank", "give max_loras too"),
        ({"fully_sharded_loras": True}, "/fully_sharded_loras", "give max_loras too"),
        ({"max_loras": 1, "max_lora_rank": 0}, "/max_lora_rank", "takes no adapters of rank 0"),
        ({"max_loras": 0}, "/max_loras", "at least one slot"),
        ({"max_loras": 1, "max_lora_rank": 24}, "/max_lora_rank", "256, 320, 512: give the next larger one."),
        ({"max_loras": 1, "max_lora_rank": 513}, "/max_lora_rank", "256, 320, 512."),
        ({"max_loras": 1, "max_lora_rank": 1, "engine_version": "0.11.0"}, "/max_lora_rank", "rank 1,"),
        ({"max_loras": 1, "weight_dtype": "fp32"}, "/max_loras", "computed in 16 bits"),
        ({"max_loras": 1, "model": "bloom-560m", "context_tokens": 1024}, "/max_loras", "does not support adapters"),
        ({"max_loras": 1, "model": "olmo-2-0325-32b-instruct", "engine_version": "0.9.2"}, "/max_loras", "not support"),
    ],
)
def test_what_the_engine_refuses_is_refused(quote: Hold, asked: dict[str, object], pointer: str, words: str) -> None:
    with pytest.raises(ValidationError) as refusal:
        quote(**{**H100, "model": "llama-3.1-8b-instruct", **asked})
    assert [fault.pointer for fault in refusal.value.faults] == [pointer]
    assert words in str(refusal.value)


@pytest.mark.parametrize(
    "asked, words",
    [
        ({"model": "deepseek-v2-lite"}, "adapters of DeepSeek-V2-Lite (deepseek_v2) is not described yet"),
        ({"model": "qwen3-30b-a3b", "engine_version": "0.20.0"}, "for this release; for 0.22.0 it is"),
        ({"model": "qwen3-30b-a3b", "weight_dtype": "fp8"}, "experts in fp8"),
        ({"model": "qwen3-30b-a3b", "data_parallel": 2}, "of several replicas"),
        ({"model": "qwen3-30b-a3b", "moe_backend": "flashinfer_cutlass"}, "only triton's"),
        ({"model": "qwen3-30b-a3b", "tensor_parallel": 4, "expert_parallel": True}, "that are spread"),
        ({"model": "dbrx-instruct", "engine_version": "0.8.3"}, "(dbrx) is not described yet"),
        ({"model": "qwen3-4b", "engine_version": "0.8.3"}, "0.8.5 is the first release whose are"),
        ({"model": "ministral-3-8b-instruct-2512", "engine_version": "0.8.3"}, "0.9.2 is the first"),
        ({"model": "olmo-2-0325-32b-instruct"}, "for this release; for 0.10.2 it is"),
        ({"model": "llama-3.1-8b-instruct", "weight_dtype": "q4_k_m"}, "GGUF"),
        (
            {"model": "llama-3.1-8b-instruct", "engine_version": "0.8.5", "gpu": "v100-sxm2-32gb"},
            "from engine_version 0.10.0 on",
        ),
    ],
)
def test_what_nobody_described_is_refused_by_name(quote: Hold, asked: dict[str, object], words: str) -> None:
    with pytest.raises(NotSupported) as refusal:
        quote(**{**H100, "max_loras": 1, **asked})
    assert words in str(refusal.value)


@pytest.mark.parametrize("rank, nearest", [(0, ("1",)), (7, ("8",)), (257, ("320",)), (513, ())])
def test_the_next_larger_rank_is_the_nearest(quote: Hold, rank: int, nearest: tuple[str, ...]) -> None:
    with pytest.raises(ValidationError) as refusal:
        quote(**H100, model="llama-3.1-8b-instruct", max_loras=1, max_lora_rank=rank)
    assert refusal.value.faults[0].nearest == nearest


@given(
    slots=st.integers(1, 64),
    more=st.integers(1, 64),
    rank=st.sampled_from(RANKS),
    larger=st.sampled_from(RANKS),
    tensor=st.sampled_from([1, 2, 4]),
)
def test_more_slots_or_a_larger_rank_never_give_more_cache(
    slots: int, more: int, rank: int, larger: int, tensor: int
) -> None:
    asked = {"engine": "vllm", "model": "qwen3-8b", **H100, "tensor_parallel": tensor}
    low, high = sorted((rank, larger))

    def cache(**adapters: int) -> int:
        answer = fit(resolve({**asked, **adapters}, SHELF), SHELF)
        pool: int = next(part["bytes"] for part in answer["ledger"]["parts"] if part["name"] == "kv_cache")
        return pool

    fewest = cache(max_loras=slots + more, max_lora_rank=high)
    assert fewest <= cache(max_loras=slots, max_lora_rank=high) <= cache(max_loras=slots, max_lora_rank=low) <= cache()


def test_steps_are_timed_without_adapters_and_say_so(ask_traffic: Ask) -> None:
    asked = {**H100, "engine": "vllm", "model": "qwen2.5-7b-instruct", "batch_size": 8}
    answer = ask_traffic(**asked, max_loras=2)
    assert answer["weight_traffic_bytes"] == ask_traffic(**asked)["weight_traffic_bytes"]
    assert any("without adapters" in line for line in answer["assumptions"])
