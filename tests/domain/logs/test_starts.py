"""What belongs to one start: starts one after the other, processes side by side, and what shows that two are mixed."""

import pytest

from service.domain.logs import read
from tests.domain.logs.vllm_lines import GIB, VLLM, core, reasons, said, start, worker


def test_a_lone_engine_is_its_only_rank() -> None:
    assert said(start(core("Available KV cache memory: 2.00 GiB")), "kv_cache_bytes") == 2 * GIB


def test_the_smallest_cache_decides_and_the_other_figures_are_of_its_rank() -> None:
    reading = start(
        worker(0, "Model loading took 5.0 GiB memory and 1.0 seconds"),
        worker(1, "Model loading took 6.0 GiB memory and 1.0 seconds"),
        worker(0, "Available KV cache memory: 3.00 GiB"),
        worker(1, "Available KV cache memory: 2.00 GiB"),
        ranks=2,
    )

    assert (said(reading, "kv_cache_bytes"), said(reading, "weight_bytes")) == (2 * GIB, 6 * GIB)
    assert reading.said["weight_bytes"].worker == "Worker_TP1"


def test_a_rank_that_is_missing_may_have_been_the_smallest() -> None:
    reading = start(worker(1, "Available KV cache memory: 2.00 GiB"), ranks=2)

    assert said(reading, "kv_cache_bytes") is None
    assert "1 of 2 ranks" in reasons(reading, "kv_cache_bytes")
    assert reading.ranks[0].said["kv_cache_bytes"].value == 2 * GIB


@pytest.mark.parametrize("version, taken", [("0.12.0", True), ("0.11.0", False)])
def test_newer_releases_print_the_first_rank_alone(version: str, taken: bool) -> None:
    reading = start(worker(0, "Available KV cache memory: 2.00 GiB"), version=version, ranks=2)

    assert (said(reading, "kv_cache_bytes") is not None) == taken


def test_ranks_that_differ_without_a_cache_do_not_say_which_limits() -> None:
    lines = [worker(rank, f"Model loading took {rank + 1}.0 GiB memory and 1.0 seconds") for rank in (0, 1)]

    assert "which of them limits" in reasons(start(*lines, ranks=2), "weight_bytes")


def test_without_settings_a_rank_may_not_be_the_only_one() -> None:
    reading = read([worker(0, "Available KV cache memory: 2.00 GiB")])

    assert "how many ranks there are" in reasons(reading, "kv_cache_bytes")


def test_more_ranks_than_were_started_are_of_another_start() -> None:
    lines = [worker(rank, "Available KV cache memory: 2.00 GiB") for rank in (0, 1)]
    reading = start(*lines, ranks=1)

    assert reading.said == {}
    assert any("mixed" in warning for warning in reading.warnings)


def test_a_process_that_says_two_things_mixes_two_starts() -> None:
    reading = start(core("Available KV cache memory: 2.00 GiB"), core("Available KV cache memory: 3.00 GiB"))

    assert (reading.said, reading.version) == ({}, None)
    assert "the values differ" in reasons(reading, "kv_cache_bytes")


def test_a_figure_with_fewer_digits_is_the_same_figure() -> None:
    reading = start(
        core("Model loading took 14.9888 GiB memory and 1.0 seconds"),
        core("Model loading took 14.99 GiB memory and 1.0 seconds"),
    )

    assert said(reading, "weight_bytes") == 16_094_101_452


def test_two_processes_of_one_name_are_not_told_apart() -> None:
    reading = start(
        worker(0, "Available KV cache memory: 2.00 GiB", pid=7), worker(0, "Available KV cache memory: 2.00 GiB", pid=8)
    )

    assert said(reading, "kv_cache_bytes") is None
    assert "called Worker_TP0" in reasons(reading, "kv_cache_bytes")


def test_a_line_without_a_name_beside_lines_with_one_is_nobodys() -> None:
    reading = start(core("GPU KV cache size: 32 tokens"), "Available KV cache memory: 2.00 GiB")

    assert "which process wrote it" in reasons(reading, "kv_cache_bytes")


def test_a_second_start_begins_where_the_engine_names_itself_again() -> None:
    first = [VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1), core("Available KV cache memory: 2.00 GiB")]
    second = [
        VLLM.format(pid=2, version="0.20.0", length=8192, ranks=1),
        core("Available KV cache memory: 3.00 GiB", 2),
    ]
    third = [VLLM.format(pid=3, version="0.21.0", length=8192, ranks=1)]

    assert read([*first, *second]).version == "0.20.0"
    assert said(read([*first, *second, *third]), "kv_cache_bytes") == 3 * GIB
    assert "last complete one" in read([*first, *second, *third]).warnings[0]
    assert read(third * 2).starts == 2


def test_a_cache_after_a_refusal_is_of_another_start() -> None:
    refused = core("ValueError: No available memory for the cache blocks. Try increasing it.")

    assert start(refused).refusal is not None
    assert start(refused, core("Available KV cache memory: 3.00 GiB")).said == {}


def test_a_cache_below_zero_is_a_refusal() -> None:
    reading = start(core("Available KV cache memory: -0.41 GiB"))

    assert reading.refusal is not None
    assert (reading.refusal.kind, reading.refusal.available_bytes) == ("kv_cache", 0)
    assert "kv_cache_bytes" not in reading.said


def test_a_cache_where_nothing_was_left_is_of_no_engine_that_is_known() -> None:
    reading = start(core("Available KV cache memory: -2.67 GiB"), core("GPU KV cache size: 4,000 tokens"))

    assert (reading.refusal, reading.said) == (None, {})


def test_an_engine_that_gives_up_for_two_reasons_is_two() -> None:
    no_room = core("ValueError: No available memory for the cache blocks. Try increasing it.")
    no_memory = core(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
        " 23.53 GiB of which 1.20 GiB is free."
    )

    assert start(no_memory).refusal is not None
    assert start(no_memory, no_room).refusal is None


def test_an_engine_started_for_another_length_is_another_engine() -> None:
    assert start(core("Maximum concurrency for 4,096 tokens per request: 2.00x")).said == {}


@pytest.mark.parametrize(
    "line",
    [
        "INFO 01-01 00:00:00 executor.py:1] # GPU blocks: 5, # CPU blocks: 5",
        core("GPU KV cache size: 32 tokens"),
    ],
)
def test_lines_of_the_old_core_and_of_the_new_one_are_of_two_engines(line: str) -> None:
    old = "INFO 01-01 00:00:00 llm_engine.py:1] Initializing an LLM engine (v0.6.0) with config: model='m', seed=0, a=1"

    reading = read([old, line, "INFO 01-01 00:00:00 [k.py:1] GPU KV cache size: 32 tokens"])

    assert reading.said == {}


def test_an_engine_without_a_name_does_not_get_one() -> None:
    config = VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1).partition(") ")[2]

    assert read([config, core("Available KV cache memory: 3.00 GiB")]).said == {}


def test_a_value_that_was_cut_beside_the_whole_one_is_the_whole_one() -> None:
    old = "INFO 01-01 00:00:00 llm_engine.py:1] Initializing an LLM engine (v0.6.0) with config: model='m', seed=0, a=1"
    blocks = "INFO 01-01 00:00:00 x.py:1] # GPU blocks: "

    assert said(read([old, blocks + "27966, # CPU blocks: 5", blocks + "279"]), "blocks") == 27966


def test_a_line_that_says_nothing_is_nothing_when_it_is_cut() -> None:
    assert read(["Model does not support automatic max batch total tokens, it seems"]).engine is None


@pytest.mark.parametrize("size", ["999999999.99 GiB", "2000000 GiB"])
def test_a_size_that_no_device_has_is_left_out(size: str) -> None:
    assert "no device" in reasons(start(core(f"Available KV cache memory: {size}")), "kv_cache_bytes")


def test_containers_are_kept_apart_and_the_fuller_one_is_read() -> None:
    def of(source: str, size: int, *more: str) -> list[str]:
        lines = [
            VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1),
            core(f"Available KV cache memory: {size}.0 GiB"),
        ]
        return [f"{source}  | {line}" for line in (*lines, *more)]

    small, large = of("vllm-1", 2), of("vllm-2", 3, core("GPU KV cache size: 32 tokens"))
    reading = read([line for pair in zip(small, large, strict=False) for line in pair] + large[2:])

    assert said(reading, "kv_cache_bytes") == 3 * GIB
    assert any("vllm in vllm-1" in warning for warning in reading.warnings)


def test_of_two_engines_the_answer_says_which_was_read() -> None:
    lines = [VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1), core("Available KV cache memory: 2.00 GiB")]
    other = "[2025-01-01 00:00:00] Load weight begin. avail mem=20.00 GB"

    assert read([*lines, other]).warnings == ("The log also holds lines of sglang; they were not read. vllm was.",)


def test_more_containers_than_are_told_apart_do_no_harm() -> None:
    lines = [f"c{number}  | {core('Available KV cache memory: 2.0 GiB')}" for number in range(40)]

    assert read(lines).lines == 40


def test_more_processes_than_are_told_apart_do_no_harm() -> None:
    lines = [worker(rank, "Available KV cache memory: 2.00 GiB") for rank in range(3000)]

    reading = read(lines)

    assert len(reading.ranks) < 3000
    assert any("More processes" in warning for warning in reading.warnings)


def test_more_values_than_are_kept_apart_are_left_out() -> None:
    texts = ["Available KV cache memory: 2.00 GiB", "Estimated CUDA graph memory: 1.00 GiB total"]
    lines = [worker(rank, text) for rank in range(1000) for text in (*texts, "Model loading took 1.0 GiB")]

    reading = read(lines)

    assert any("More values" in warning for warning in reading.warnings)


def test_two_spellings_of_a_context_are_of_two_releases() -> None:
    old, new = "llama_new_context_with_model: n_ctx      = 4096", "llama_context: n_ctx         = 4096"
    reading = read([old, new, "llama_new_context_with_model: n_batch    = 512"])

    assert any("mixed" in warning for warning in reading.warnings)


def test_a_log_of_broken_lines_alone_lists_a_part_of_them() -> None:
    reading = read(["Available KV cache memory: 2.0 Gi"] * 500)

    assert len(reading.left_out) == 101
    assert reading.left_out[-1].what == "100 more"


def test_a_value_said_again_and_again_is_one_value() -> None:
    assert said(start(*[core("Available KV cache memory: 2.00 GiB")] * 200), "kv_cache_bytes") == 2 * GIB


def test_settings_printed_by_very_many_processes_are_read_from_a_few() -> None:
    config = VLLM.format(pid=1, version="0.19.0", length=8192, ranks=1)
    lines = [config.replace("EngineCore ", f"EngineCore_DP{number} ") for number in range(40)]

    assert read(lines).starts == 1


def test_out_of_memory_beside_two_engines_is_nobodys() -> None:
    words = (
        "CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.53 GiB of which 1.20 GiB is"
        " free."
    )
    sglang = "Load weight begin. avail mem=20.00 GB"

    assert start(core(words)).refusal is not None
    mixed = start(core(words), core("Initial free memory: 3.0 GiB; Requested memory: 0.9 (util), 2.0 GiB"), sglang)
    assert mixed.refusal is None
    assert "memory_bytes" not in mixed.said


def unnamed(text: str) -> str:
    return f"INFO 01-01 00:00:00 [x.py:1] {text}"


def opening(version: str, length: int = 8192) -> str:
    return VLLM.format(pid=1, version=version, length=length, ranks=1).partition(") ")[2]


class TestTwoStartsOfWhichNoneNamesItself:
    """The one begins while the other has not been seen to its end."""

    def test_what_an_engine_says_last_may_be_of_the_one_before(self) -> None:
        lines = [
            opening("0.9.0"),
            unnamed("GPU KV cache size: 32 tokens"),
            opening("0.9.1"),
            unnamed("GPU KV cache size: 64 tokens"),
            unnamed("Graph capturing finished in 20 secs, took 1.44 GiB"),
        ]

        reading = read(lines)

        assert said(reading, "graph_bytes") is None
        assert "earlier" in reasons(reading, "graph_bytes")

    def test_it_is_its_own_where_the_one_before_had_come_to_its_end(self) -> None:
        lines = [
            opening("0.9.0"),
            unnamed("GPU KV cache size: 32 tokens"),
            unnamed("Graph capturing finished in 20 secs, took 1.44 GiB"),
            opening("0.9.1"),
            unnamed("Model loading took 5.0 GiB memory and 1.0 seconds"),
            unnamed("GPU KV cache size: 64 tokens"),
            unnamed("Graph capturing finished in 20 secs, took 1.00 GiB"),
        ]

        assert said(read(lines), "graph_bytes") == GIB

    def test_a_reason_to_give_up_may_be_of_the_one_before(self) -> None:
        lines = [
            opening("0.9.0"),
            opening("0.9.1"),
            unnamed("GPU KV cache size: 64 tokens"),
            unnamed(
                "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of"
                " 23.53 GiB of which 1.20 GiB is free."
            ),
        ]

        assert read(lines).refusal is None


@pytest.mark.parametrize(
    "lines",
    [
        # No engine that found too little memory free had loaded its weights.
        [
            core("Model loading took 5.0 GiB memory and 1.0 seconds"),
            core(
                "ValueError: Free memory on device (1.0/79.19 GiB) on startup is less than desired GPU memory"
                " utilization (0.9, 71.27 GiB)."
            ),
        ],
        # Nor does one that has no room for its cache say how many tokens it holds.
        [
            core("GPU KV cache size: 32 tokens"),
            core("ValueError: No available memory for the cache blocks."),
        ],
        # The room it lacks is the room it said that it has.
        [
            core("Available KV cache memory: 2.00 GiB"),
            core(
                "ValueError: To serve at least one request with the models's max seq len (8192), (24.00 GiB KV cache is"
                " needed, which is larger than the available KV cache memory (10.91 GiB)."
            ),
        ],
        # Memory is counted before the cache is made of it.
        [core("Available KV cache memory: 2.00 GiB"), core("Model loading took 5.0 GiB memory and 1.0 seconds")],
        # One process, of two numbers.
        [core("Available KV cache memory: 2.00 GiB", pid=2)],
        [core("Available KV cache memory: 2.00 GiB").replace("EngineCore", "EngineCore_DP0")],
    ],
)
def test_lines_that_no_start_has_together_are_of_two(lines: list[str]) -> None:
    reading = start(*lines)

    assert (reading.said, reading.refusal) == ({}, None)
    assert any("two starts are mixed" in each.reason for each in reading.left_out)


def test_a_cut_line_of_one_engine_is_not_taken_for_another() -> None:
    assert read(["trust_remote_code=False, max_seq_len=8192, downlGPU KV cache size: 47"]).engine == "vllm"
