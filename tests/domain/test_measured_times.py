"""What times of steps, prefills and messages can be, by what a model reads and multiplies."""

from typing import Any

import pytest

from service.domain.measurement import Verdict
from tests.domain.judging import LLAMA, step, verdict


def test_a_million_tokens_a_second_are_quarantined() -> None:
    assert step(1e-6, **LLAMA) is Verdict.QUARANTINED


def test_a_step_of_a_few_layers_is_compared_with_those() -> None:
    timed = {"seconds": 0.00025, "layers_timed": 1}

    assert verdict("decode_step", timed, {**LLAMA, "batch_size": 8, "context_tokens": 4096}) is Verdict.ACCEPTED
    assert verdict("decode_step", {**timed, "seconds": 2e-5}, LLAMA) is Verdict.QUARANTINED


def test_a_step_that_guesses_tokens_may_be_faster() -> None:
    assert step(0.001, **LLAMA, speculative_method="eagle") is Verdict.ACCEPTED


@pytest.mark.parametrize("setup", [{"speculative_method": "eagle"}, {"draft_model": "llama-2-7b"}])
def test_no_step_that_guesses_is_a_thousand_times_as_fast(setup: dict[str, Any]) -> None:
    assert step(1e-6, **LLAMA, **setup) is Verdict.QUARANTINED


def test_a_step_of_a_file_of_mixed_widths_reads_a_bit_a_parameter_at_least() -> None:
    mixed = {**LLAMA, "weight_dtype": "q4_k_m"}

    assert step(1e-6, **mixed) is Verdict.QUARANTINED
    assert step(0.0013, **mixed) is Verdict.ACCEPTED
    # What is too slow for its least need not be for what it is.
    assert step(100.0, **mixed) is Verdict.ACCEPTED


@pytest.mark.parametrize("name", ["decode_context_parallel", "attention_data_parallel"])
def test_ranks_that_share_sequences_read_a_part_of_their_cache(name: str) -> None:
    busy = {**LLAMA, "tensor_parallel": 8, "batch_size": 256, "context_tokens": 4096}

    assert step(0.006, **busy) is Verdict.QUARANTINED
    assert step(0.006, **busy, **{name: 8}) is Verdict.ACCEPTED


def test_a_large_batch_is_bound_by_arithmetic() -> None:
    assert step(0.02, **LLAMA, batch_size=4096) is Verdict.QUARANTINED
    assert step(0.08, **LLAMA, batch_size=4096) is Verdict.ACCEPTED


def test_experts_that_no_token_visits_need_not_be_read() -> None:
    assert step(0.012, model="mixtral-8x7b-v0.1") is Verdict.ACCEPTED
    assert step(0.004, model="mixtral-8x7b-v0.1") is Verdict.QUARANTINED


def test_a_prefill_multiplies_every_token_with_the_weights() -> None:
    setup = {**LLAMA, "prompt_tokens": 8192}

    assert verdict("prefill", {"seconds": 0.25}, setup) is Verdict.ACCEPTED
    assert verdict("prefill", {"seconds": 0.05}, setup) is Verdict.QUARANTINED
    assert verdict("prefill", {"seconds": 0.05}, LLAMA) is Verdict.ACCEPTED


def test_an_all_reduce_may_beat_its_links_but_not_the_memory() -> None:
    assert verdict("all_reduce", {"bytes": 2**28, "ranks": 8, "seconds": 0.001}) is Verdict.ACCEPTED
    assert verdict("all_reduce", {"bytes": 2**30, "ranks": 8, "seconds": 0.0001}) is Verdict.QUARANTINED
    assert verdict("all_reduce", {"bytes": 2**20, "ranks": 8, "seconds": 1e-7}) is Verdict.ACCEPTED
    assert verdict("all_reduce", {"bytes": 2**20, "ranks": 8, "seconds": 1e-9}) is Verdict.QUARANTINED
