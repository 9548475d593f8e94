"""The run over a whole card: what it covers, and the table that comes of its rows."""

from pathlib import Path
from typing import Any

from tests.clients.probe.gpu_run import MODELS, _parser, table, tasks


def test_it_covers_three_kinds_of_attention_in_two_cache_types(tmp_path: Path) -> None:
    asked = list(tasks(_parser().parse_args([]), tmp_path))

    ceilings = [task.options for task in asked if task.command == "ceiling"]
    assert len(ceilings) == 2 * len(MODELS) == 6
    assert {task.command for task in asked} == {"device", "bandwidth", "matmul", "kv", "ceiling", "decode", "prefill"}


def test_the_table_sets_quoted_beside_measured() -> None:
    setup = {"model": "llama-2-7b", "kv_dtype": "fp16"}
    allocated = {"bytes_per_token": 524_812.3, "quoted_bytes_per_token": 524_288}
    found = {"predicted_sequences": 28, "passed_sequences": 27, "limit": "step"}
    streamed = {"access": "read", "bytes_per_second": 2.9e12, "kernel": "mv_bf16"}
    rows: list[dict[str, Any]] = [
        {"kind": "kv_allocation", "setup": setup, "values": allocated},
        {"kind": "batch_ceiling", "setup": setup, "values": found},
        {"kind": "memory_bandwidth", "setup": None, "values": streamed},
        {"kind": "device_memory", "setup": None, "values": {}},
    ]

    assert table(rows)[2:] == [
        "| bytes a token | llama-2-7b | fp16 | 524,288 | 524,812.3 | +0.100% |",
        "| sequences, by step | llama-2-7b | fp16 | 28 | 27 | -3.6% |",
        "| bandwidth, read |  |  |  | 2,900 GB/s | mv_bf16 |",
    ]
