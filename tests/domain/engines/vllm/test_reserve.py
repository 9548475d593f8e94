"""The reserve: what a release's profiling subtracts, part by part."""

from typing import Any

import pytest

from service.domain.engines.vllm import Held
from service.domain.engines.vllm.reserve import Part, summed
from service.domain.engines.vllm.rules import Span
from tests.domain.engines.vllm.conftest import GIB, Hold, gib

MODEL = {"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb"}


def parts(held: Held) -> set[str]:
    return {part.name for part in held.parts}


@pytest.mark.parametrize(
    "question, logged",
    [
        ({**MODEL, "engine_version": "0.19.1"}, 1.89),
        (
            {
                "model": "llama-3.1-8b-instruct",
                "gpu": "rtx-3090",
                "engine_version": "0.6.4.post1",
                "context_tokens": 20000,
            },
            2.07,
        ),
        (
            {
                "model": "llama-3.1-8b-instruct",
                "gpu": "rtx-3090",
                "engine_version": "0.6.4.post1",
                "context_tokens": 29000,
            },
            2.99,
        ),
    ],
)
def test_activations_and_sampler_are_those_of_public_logs(quote: Hold, question: dict[str, Any], logged: float) -> None:
    assert gib(quote(**question), "activations", "sampler") == pytest.approx(logged, abs=0.012)


@pytest.mark.parametrize("version, element_bytes", [("0.15.1", 38), ("0.17.0", 14 + 4 * 132 / 1024), ("0.22.0", 14)])
def test_a_sampler_takes_what_its_method_keeps_of_every_word(quote: Hold, version: str, element_bytes: float) -> None:
    held = quote(**MODEL, engine_version=version)
    assert gib(held, "sampler") * GIB == pytest.approx(element_bytes * 1024 * 128256)


def test_a_sampler_may_be_chosen(quote: Hold) -> None:
    held = quote(**MODEL, engine_version="0.20.0", sampler_backend="sort")
    assert gib(held, "sampler") * GIB == 38 * 1024 * 128256


SAMPLED = {**MODEL, "max_batched_tokens": 1024, "max_sequences_limit": 1024}


@pytest.mark.parametrize("version, element_bytes", [("0.25.1", 6), ("0.26.0", 2), ("0.28.0", 2), ("0.33.0", 2)])
def test_the_second_runner_profiles_logits_that_nobody_filters(quote: Hold, version: str, element_bytes: float) -> None:
    for backend in (None, "sort", "flashinfer"):
        held = quote(**SAMPLED, engine_version=version, sampler_backend=backend, enforce_eager=True)
        assert gib(held, "sampler") * GIB == element_bytes * 1024 * 128256


def test_gathered_logits_are_held_with_a_rank_s_own_and_their_copy(quote: Hold) -> None:
    held = quote(**SAMPLED, engine_version="0.33.0", tensor_parallel=4)
    assert gib(held, "sampler") * GIB == (2 / 4 + 2 + 2) * 1024 * 128256


@pytest.mark.parametrize(
    "version, said",
    [("0.7.3", False), ("0.9.2", True), ("0.11.0", True), ("0.11.1", False), ("0.12.0", False), ("0.19.1", False)],
)
def test_a_sampler_that_depends_on_what_is_installed_says_so(quote: Hold, version: str, said: bool) -> None:
    note = next(p.note for p in quote(**MODEL, engine_version=version).parts if p.name == "sampler")
    assert ("where flashinfer is installed it samples with 14 B" in note) is said
    if said:
        asked = quote(**MODEL, engine_version=version, sampler_backend="sort")
        assert "installed" not in next(p.note for p in asked.parts if p.name == "sampler")


@pytest.mark.parametrize("tensor", [2, 4, 8])
def test_tensor_parallelism_does_not_divide_the_sampler(quote: Hold, tensor: int) -> None:
    asked = {**MODEL, "engine_version": "0.22.0"}
    assert gib(quote(**asked, tensor_parallel=tensor), "sampler") == gib(quote(**asked), "sampler")


def test_the_larger_of_pass_and_sampler_is_subtracted_and_not_both(quote: Hold) -> None:
    held = quote(**MODEL, max_batched_tokens=65536, max_sequences_limit=16)
    assert "sampler" not in parts(held)
    assert gib(held, "activations") == pytest.approx(2 * 65536 * (3 * 4096 + 3 * 14336) / GIB, rel=0.01)


def test_tensor_parallelism_divides_what_a_pass_holds_between_its_matrices(quote: Hold) -> None:
    asked = {**MODEL, "max_batched_tokens": 65536, "max_sequences_limit": 16}
    fewer = gib(quote(**asked), "activations") - gib(quote(**asked, tensor_parallel=4), "activations")
    assert fewer == pytest.approx(2 * 65536 * 3 * 14336 * 3 / 4 / GIB)


@pytest.mark.parametrize("version, beside", [("0.12.0", False), ("0.13.0", True)])
def test_expert_buffers_outlive_the_pass_from_one_release_on(quote: Hold, version: str, beside: bool) -> None:
    held = quote(model="qwen3-30b-a3b", gpu="h100-sxm-80gb", engine_version=version)
    assert (gib(held, "activations") > 0.5) == beside


def test_only_the_last_stage_samples(quote: Hold) -> None:
    first, last = quote(**MODEL, engine_version="0.22.0", pipeline_parallel=2).ranks
    assert "sampler" not in {part.name for part in first.reserve.parts}
    assert "sampler" in {part.name for part in last.reserve.parts}


@pytest.mark.parametrize(
    "model, version, kept",
    [
        ("llama-3.1-8b-instruct", "0.19.1", False),
        ("qwen3-8b", "0.22.0", True),
        ("llama-3.1-8b-instruct", "0.22.0", False),
        ("llama-3.1-8b-instruct", "0.24.0", True),
        ("qwen3-30b-a3b", "0.25.1", False),
        ("qwen3-30b-a3b", "0.33.0", True),
    ],
)
def test_the_second_runner_keeps_penalty_counts(quote: Hold, model: str, version: str, kept: bool) -> None:
    held = quote(model=model, gpu="h100-sxm-80gb", engine_version=version)
    assert ("state" in parts(held)) == kept


def test_penalty_counts_are_kept_for_every_sequence_and_word(quote: Hold) -> None:
    assert gib(quote(**MODEL), "state") * GIB == 4.125 * 1024 * 128256


def test_states_outside_the_pages_are_part_of_the_reserve(quote: Hold) -> None:
    held = quote(model="jamba-v0.1", gpu="h200-sxm-141gb", engine_version="0.8.5")
    assert gib(held, "state") > 1
    assert {group.paging.value for group in held.plan.groups} == {"full"}


@pytest.mark.parametrize(
    "version, asked, subtracted",
    [
        ("0.19.1", {}, False),
        ("0.19.2rc1.dev134", {}, True),
        ("0.22.0", {}, True),
        ("0.22.0", {"enforce_eager": True}, False),
        ("0.25.1", {}, False),
        ("0.33.0", {}, True),
    ],
)
def test_graphs_are_subtracted_by_releases_that_estimate_them(
    quote: Hold, version: str, asked: dict[str, bool], subtracted: bool
) -> None:
    assert ("graphs" in parts(quote(**MODEL, engine_version=version, **asked))) == subtracted


@pytest.mark.parametrize(
    "asked, pieces, whole",
    [
        ({"max_sequences_limit": 1}, 2, 1),
        ({"max_sequences_limit": 4}, 4, 3),
        ({"max_sequences_limit": 64}, 19, 11),
        ({"max_sequences_limit": 256}, 51, 35),
        ({"max_sequences_limit": 1024}, 51, 51),
        ({"max_sequences_limit": 256, "max_batched_tokens": 256}, 35, 35),
        ({"max_sequences_limit": 10, "speculative_method": "eagle3", "speculative_tokens": 4}, 15, 9),
        ({"max_sequences_limit": 1024, "gpu": "b200-sxm-180gb"}, 83, 83),
        ({"max_sequences_limit": 1024, "gpu": "b200-sxm-180gb", "engine_version": "0.26.0"}, 0, 0),
    ],
)
def test_graphs_are_captured_in_pieces_and_for_whole_steps(
    quote: Hold, asked: dict[str, Any], pieces: int, whole: int
) -> None:
    note = next((p.note for p in quote(**{**MODEL, **asked}).parts if p.name == "graphs"), "none for 0 sizes 0 whole")
    assert note.startswith(f"estimate for {pieces} sizes in pieces and {whole} whole") or not pieces


@pytest.mark.parametrize("gpu, whole", [("l40s", 0), ("h200-sxm-141gb", 5)])
def test_own_kernels_of_flashinfer_replay_no_whole_step_of_several_tokens(quote: Hold, gpu: str, whole: int) -> None:
    asked = {"speculative_method": "mtp", "speculative_tokens": 3, "kv_dtype": "fp8", "max_sequences_limit": 4}
    held = quote(model="qwen3.6-27b", gpu=gpu, engine_version="0.24.0", weight_dtype="fp8", **asked)
    note = next(p.note for p in held.parts if p.name == "graphs")
    assert f" and {whole} whole" in note


@pytest.mark.parametrize(
    "question, printed",
    [
        ({"model": "qwen2.5-7b-instruct", "gpu": "rtx-4090", "engine_version": "0.20.0"}, 0.53),
        ({"model": "qwen3.5-4b", "gpu": "a40", "engine_version": "0.22.0", "max_batched_tokens": 8192}, 0.64),
        ({"model": "llama-3.1-8b-instruct", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}, 0.84),
        (
            {
                "model": "llama-3.1-8b-instruct",
                "gpu": "h100-sxm-80gb",
                "engine_version": "0.20.0",
                "tensor_parallel": 4,
            },
            0.57,
        ),
        ({"model": "qwen3-30b-a3b", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}, 1.24),
        ({"model": "phi-4", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}, 0.81),
        ({"model": "deepseek-v2-lite", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}, 1.39),
        ({"model": "gemma-3-27b-it", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}, 1.05),
        (
            {
                "model": "qwen3.6-35b-a3b-nvfp4",
                "gpu": "gb10-dgx-spark",
                "engine_version": "0.20.0",
                "kv_dtype": "fp8_e4m3",
                "max_sequences_limit": 1,
                "max_batched_tokens": 8192,
            },
            0.43,
        ),
    ],
)
def test_graphs_are_estimated_as_starts_printed(quote: Hold, question: dict[str, Any], printed: float) -> None:
    assert gib(quote(**question), "graphs") == pytest.approx(printed, rel=0.25)


def test_graphs_beyond_the_estimate_lie_in_its_interval(quote: Hold) -> None:
    asked = {"model": "qwen3.5-9b", "gpu": "l40s", "engine_version": "0.20.0", "max_batched_tokens": 8192}
    span = next(part.span for part in quote(**asked).parts if part.name == "graphs")
    assert span.middle < 0.78 * GIB < span.high


def test_one_rank_has_no_buffers_to_talk_over(quote: Hold) -> None:
    assert "communication" not in parts(quote(**MODEL))


def test_buffers_over_a_fast_link_are_larger_than_over_a_slow_one(quote: Hold) -> None:
    fast = quote(**MODEL, tensor_parallel=4)
    slow = quote(model=MODEL["model"], gpu="l40s", tensor_parallel=4)
    assert gib(fast, "communication") > 5 * gib(slow, "communication") > 0


@pytest.mark.parametrize("asked", [{"enforce_eager": True}, {"pipeline_parallel": 2}, {"engine_version": "0.16.0"}])
def test_fused_all_reduces_keep_more(quote: Hold, asked: dict[str, Any]) -> None:
    """Source: 0.9 GiB of an eager start of Llama-3.3-70B over eight H100 with 0.19, 2.1 and 2.2 of compiled ones."""
    start = {
        "model": "llama-3.3-70b-instruct",
        "gpu": "h100-sxm-80gb",
        "engine_version": "0.19.0",
        "tensor_parallel": 8,
    }
    assert gib(quote(**start), "communication") > gib(quote(**{**start, **asked}), "communication") + 1
    assert gib(quote(**start), "communication") == pytest.approx(2.1)


def test_a_bridge_between_two_cards_is_no_fast_link(quote: Hold) -> None:
    """Source: 0.15 GiB beside the parts of one rank on four RTX 3090 with 0.11.0."""
    bridged, none = (
        gib(quote(model="llama-3.1-8b-instruct", gpu=gpu, tensor_parallel=4), "communication")
        for gpu in ("rtx-3090", "rtx-4090")
    )
    assert bridged == none


@pytest.mark.parametrize(
    "gpu, version, size",
    [("t4", "0.26.0", 0.18), ("h100-sxm-80gb", "0.26.0", 0.25), ("rtx-5090", "0.20.0", 0.17), ("l4", "0.27.1", 0.15)],
)
def test_a_context_of_a_device_is_that_of_its_generation(quote: Hold, gpu: str, version: str, size: float) -> None:
    asked = {"model": "qwen3-0.6b", "weight_dtype": "fp16", "kv_dtype": "fp16"}
    assert gib(quote(**asked, gpu=gpu, engine_version=version), "runtime") == pytest.approx(size, abs=0.01)


def test_the_older_core_keeps_less_for_two_ranks(quote: Hold) -> None:
    old, new = (quote(**MODEL, tensor_parallel=2, engine_version=v) for v in ("0.7.3", "0.10.2"))
    assert gib(old, "communication") < gib(new, "communication")


def test_pictures_are_held_while_the_language_model_is_profiled(quote: Hold) -> None:
    seen = quote(model="gemma-3-27b-it", gpu="h100-sxm-80gb", engine_version="0.19.1")
    assert gib(seen, "encoder") == pytest.approx(0.23, abs=0.02)
    assert "encoder" not in parts(quote(**MODEL))


@pytest.mark.parametrize(
    "question, printed",
    [
        ({"model": "qwen3.5-9b", "gpu": "l40s", "engine_version": "0.19.0", "max_batched_tokens": 8192}, 1.78),
        ({"model": "qwen3.5-4b", "gpu": "a40", "engine_version": "0.22.0", "max_batched_tokens": 8192}, 1.59),
    ],
)
def test_an_encoders_own_pass_may_be_the_largest(quote: Hold, question: dict[str, Any], printed: float) -> None:
    held = quote(**question)
    assert gib(held, "encoder", "activations", "sampler") == pytest.approx(printed, rel=0.08)


def test_an_encoder_is_divided_as_the_model_is(quote: Hold) -> None:
    asked = {"model": "qwen3.5-27b", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0", "max_sequences_limit": 8}
    whole, half = (gib(quote(**asked, max_batched_tokens=2048, tensor_parallel=n), "encoder") for n in (1, 2))
    assert half < 0.8 * whole


def test_a_budget_for_pictures_may_be_given(quote: Hold) -> None:
    asked = {"model": "gemma-3-27b-it", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}
    less, more = (gib(quote(**asked, encoder_budget_tokens=n), "encoder") for n in (1024, 8192))
    assert more == pytest.approx(8 * less)


def test_pictures_that_are_embedded_one_by_one_take_the_pass_of_one(quote: Hold) -> None:
    """Source: gemma4_mm.py of 0.20.0, which runs pictures and frames in a loop."""
    asked = {"model": "gemma-4-26b-a4b-it", "gpu": "h100-sxm-80gb", "engine_version": "0.20.0"}
    sizes = [gib(quote(**asked, max_batched_tokens=n), "encoder") for n in (4096, 16384)]
    assert sizes[1] == pytest.approx(4 * sizes[0])
    assert sizes[1] < 0.5


def test_a_budget_beyond_the_longest_sequence_is_cut_to_it(quote: Hold) -> None:
    asked = {"model": "qwen3-vl-30b-a3b-instruct", "gpu": "rtx-3090", "engine_version": "0.11.0", "tensor_parallel": 4}
    for limit in (32768, 65536):
        held = (quote(**asked, context_tokens=limit, encoder_budget_tokens=n) for n in (limit, 153600))
        assert len({gib(one, "encoder") for one in held}) == 1


@pytest.mark.parametrize("version, size", [("0.8.5", 0.4), ("0.19.1", 0.71), ("0.29.0", 0.4)])
def test_another_vendors_runtime_is_its_own(quote: Hold, version: str, size: float) -> None:
    other = quote(model=MODEL["model"], gpu="mi300x", engine_version=version)
    assert gib(other, "runtime") == pytest.approx(size)


def test_a_device_that_shares_its_memory_with_the_host_is_less_certain(quote: Hold) -> None:
    batch = {"max_batched_tokens": 2048, "max_sequences_limit": 256}
    asked = {"model": MODEL["model"], "engine_version": "0.19.1", "memory_utilization": 0.5, **batch}
    shared, own = (quote(gpu=gpu, **asked) for gpu in ("gb10-dgx-spark", "h100-sxm-80gb"))
    assert shared.rank.reserve.more > own.rank.reserve.more + 2 * GIB
    assert shared.rank.reserve.less > own.rank.reserve.less + GIB
    assert gib(shared, "runtime") > gib(own, "runtime") + 1


def test_uncertain_parts_are_taken_as_independent_of_each_other() -> None:
    found = summed([Part("a", Span(7, 10, 14), ""), Part("b", Span(16, 20, 23), "")])
    assert (found.total, found.less, found.more) == (30, 5.0, 5.0)


def test_a_workspace_is_taken_with_the_first_graph_of_a_whole_step(quote: Hold) -> None:
    asked = {**MODEL, "engine_version": "0.20.0", "gpu": "rtx-5090", "max_sequences_limit": 1, "context_tokens": 2048}
    own, other = (quote(**asked, attention_backend=name) for name in ("FLASHINFER", "FLASH_ATTN"))
    assert gib(own, "activations") == gib(other, "activations")
    assert gib(own, "graphs") > gib(other, "graphs") + 0.3


def test_flashinfer_attends_to_a_narrow_cache_where_flash_attention_reads_none(quote: Hold) -> None:
    asked = {**MODEL, "engine_version": "0.20.0", "max_sequences_limit": 1, "context_tokens": 2048}
    for gpu, more in (("rtx-5090", True), ("rtx-3090", True), ("h100-sxm-80gb", False)):
        asked |= {"gpu": gpu}
        wide, narrow = (gib(quote(**asked, kv_dtype=number), "graphs") for number in ("bf16", "fp8"))
        assert (narrow > wide + 0.3) is more
