"""The length that vLLM chooses by what memory holds, and workers that speak before they have a name."""

import pytest

from service.domain.logs import read
from tests.domain.logs.vllm_lines import VLLM, core, reasons, said, start, worker


def test_a_length_that_may_have_been_shortened_is_left_out() -> None:
    cache = core("Available KV cache memory: 2.00 GiB")

    assert said(start(cache), "context_limit_tokens") is None
    assert "shorter" in reasons(start(cache), "context_limit_tokens")
    assert said(start(cache, version="0.13.0"), "context_limit_tokens") == 8192


@pytest.mark.parametrize("length, found", [("8192", 8192), ("-1", None), ("'auto'", None)])
def test_what_was_asked_says_whether_the_engine_chooses(length: str, found: int | None) -> None:
    asked = f"(APIServer pid=9) INFO 01-01 00:00:00 [x.py:1] non-default args: {{'max_model_len': {length}}}"
    opened = VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1)

    assert said(read([asked, opened]), "context_limit_tokens") == found


def test_what_the_engine_chose_takes_the_place_of_the_length_it_began_with() -> None:
    reading = start(
        core("Available KV cache memory: 2.00 GiB"),
        core("Auto-fit max_model_len: reduced from 8192 to 4096 to fit in available GPU memory (2.00 GiB available)"),
        core("Maximum concurrency for 4,096 tokens per request: 1.00x"),
    )

    assert said(reading, "context_limit_tokens") == 4096
    assert reading.said["context_limit_tokens"].line == 3


def test_a_length_that_fits_whole_is_the_one_it_began_with() -> None:
    fits = core("Auto-fit max_model_len: full model context length 8192 fits in available GPU memory")

    assert said(start(fits), "context_limit_tokens") == 8192


def test_what_a_worker_says_before_it_has_its_name_is_its_own() -> None:
    lines = [
        *("(Worker pid={}) INFO 01-01 00:00:00 [x.py:1] Model loading took {} GiB memory and 1.0 seconds",) * 2,
        *(worker(rank, "Available KV cache memory: 2.00 GiB", pid=50 + rank) for rank in range(2)),
    ]
    reading = start(lines[0].format(50, 5.0), lines[1].format(51, 6.0), *lines[2:], ranks=2)

    assert {rank.worker: sorted(rank.said) for rank in reading.ranks} == {
        name: ["kv_cache_bytes", "weight_bytes"] for name in ("Worker_TP0", "Worker_TP1")
    }


def test_two_names_with_one_number_leave_what_was_said_before_to_nobody() -> None:
    unnamed = "(Worker pid=50) INFO 01-01 00:00:00 [x.py:1] Model loading took 5.0 GiB memory and 1.0 seconds"
    reading = start(unnamed, *(worker(rank, "Available KV cache memory: 2.00 GiB", pid=50) for rank in range(2)))

    assert said(reading, "weight_bytes") is None
