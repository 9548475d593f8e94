"""Compute buffers beside those that builds reserved themselves, and those that cards printed."""

from statistics import median
from typing import Any

import pytest

from service.domain.engines.llama_cpp.compute import mask_cells
from service.domain.engines.llama_cpp.layers import placement
from service.storage.catalog_yaml import read_yaml
from tests.domain.agreement import ask, parts
from tests.domain.conftest import CATALOG

MIB = 1 << 20
DATA: Any = read_yaml(CATALOG.parent / "tests" / "data" / "llama_compute.yaml")
LLAMA = "llama-3.1-8b-instruct"


def buffer_mib(row: dict[str, Any], **changed: Any) -> float:  # noqa: ANN401
    """The quoted buffer of the device that fills first."""
    question = {
        "model": row.get("model", LLAMA),
        "engine": "llama.cpp",
        "engine_version": row["build"],
        "memory_bytes": 2 * 10**12,
        "context_tokens": row.get("context_tokens", 8192),
        "max_batched_tokens": row.get("pass_tokens", 512),
        "attention_backend": "on" if row["fused"] else "off",
        "parallel_slots": 1,
        "weight_dtype": "q8_0",
    }
    answer = ask({name: value for name, value in (question | changed).items() if value is not None})
    assert answer is not None
    return float(parts(answer)["reserve.activations"] / MIB)


def off(row: dict[str, Any]) -> float:
    return float(abs(buffer_mib(row) / row["mib"] - 1))


@pytest.mark.parametrize("row", DATA["reservations"], ids=str)
def test_a_buffer_is_what_the_build_reserves(row: dict[str, Any]) -> None:
    assert buffer_mib(row) == pytest.approx(row["mib"], rel=0.11)


def test_most_buffers_are_exact() -> None:
    errors = [off(row) for row in DATA["reservations"]]

    assert median(errors) < 0.001
    assert sum(error < 0.03 for error in errors) > 0.85 * len(errors)


@pytest.mark.parametrize("row", DATA["logs"], ids=lambda row: f"{row['model']}-{row['context_tokens']}")
def test_a_buffer_is_what_a_card_printed(row: dict[str, Any]) -> None:
    assert buffer_mib(row) == pytest.approx(row["mib"], rel=0.07)


@pytest.mark.parametrize("row", DATA["side_by_side"], ids=str)
def test_devices_side_by_side_have_copies_of_the_inputs(row: dict[str, Any]) -> None:
    """33 of 34 places are the first device's: it fills first unless logits of a whole pass stand on the other one."""
    quoted = buffer_mib(row, tensor_split=[34, 1])
    logits = 290.5 if row["build"] == "b4798" and row["fused"] else row["mib"]

    assert quoted == pytest.approx(logits, rel=0.08)


@pytest.mark.parametrize("row", DATA["placements"], ids=str)
def test_layers_stand_where_the_build_puts_them(row: dict[str, Any]) -> None:
    found = placement(33, tuple(row["split"]), -1, output_first=True)

    assert [len(layers) for layers in found.devices] == row["layers"]
    assert found.output == len(row["split"]) - 1


def test_a_device_makes_room_for_what_it_works_off_the_host() -> None:
    """Logits of 512 tokens, 512 vectors, and the output matrix in 6 bits that an older build left on the host."""
    row = {"build": "b4000", "fused": True, "context_tokens": 4096}
    head = 4096 * 128256 * 210 / 256 / MIB

    assert buffer_mib(row, gpu_layers=10, weight_dtype="q4_k_m") == pytest.approx(250.5 + 8 + head, rel=1e-4)
    assert buffer_mib(row, gpu_layers=33, weight_dtype="q4_k_m") == pytest.approx(258.5, rel=1e-4)


def test_a_newer_build_leaves_the_output_on_the_device_and_copies_layers() -> None:
    """The widest layer's three matrices beside three middles, three vectors and a mask of 32,768 cells."""
    row = {"build": "b9500", "fused": True, "context_tokens": 32768}

    assert buffer_mib(row, gpu_layers=15, weight_dtype="q4_k_m") == pytest.approx(248.0, rel=0.01)


@pytest.mark.parametrize("row", DATA["hosted"], ids=str)
def test_experts_on_the_host_are_copied_one_matrix_at_a_time(row: dict[str, Any]) -> None:
    asked = {"weight_dtype": row["dtype"], "cpu_expert_layers": row["experts"]}

    assert buffer_mib(row | {"fused": True}, **asked) == pytest.approx(row["mib"], rel=3e-4)


@pytest.mark.parametrize("row", DATA["hosted_tensors"], ids=str)
def test_tensors_on_the_host_are_copied_one_at_a_time(row: dict[str, Any]) -> None:
    asked = {"weight_dtype": row["dtype"], "cpu_tensors": [row["tensors"]]}

    assert buffer_mib(row | {"fused": True}, **asked) == pytest.approx(row["mib"], rel=3e-4)


@pytest.mark.parametrize("row", DATA["layers_on_the_host"], ids=str)
def test_layers_on_the_host_are_copied_one_matrix_at_a_time(row: dict[str, Any]) -> None:
    """The largest is off where the build places buffers with gaps between them."""
    asked = {"weight_dtype": row["dtype"], "gpu_layers": row["gpu_layers"]}

    assert buffer_mib(row | {"fused": True}, **asked) == pytest.approx(row["mib"], rel=0.27)


def test_most_of_them_are_near() -> None:
    errors = [
        abs(buffer_mib(row | {"fused": True}, weight_dtype=row["dtype"], gpu_layers=row["gpu_layers"]) / row["mib"] - 1)
        for row in DATA["layers_on_the_host"]
    ]

    assert median(errors) < 0.05
    assert sum(error < 0.09 for error in errors) >= 0.75 * len(errors)


@pytest.mark.parametrize("row", DATA["hosted_over_two"], ids=str)
@pytest.mark.parametrize("device", [0, 1])
def test_the_first_of_several_devices_works_off_the_host(row: dict[str, Any], device: int) -> None:
    """Memory is given so that each fills first in turn."""
    sizes = [25 << 40, 12 << 40]
    sizes[device] = 20 << 30
    asked = {"weight_dtype": row["dtype"], "cpu_expert_layers": row["experts"], "tensor_split": [2, 1]}
    quoted = buffer_mib(row | {"fused": True}, gpus_memory_bytes=sizes, memory_bytes=None, **asked)

    assert quoted == pytest.approx(row["mib"][device], rel=0.26)


def test_windows_of_one_kind_share_a_mask() -> None:
    assert mask_cells([None, None], 8192, 256, 512) == 8192
    assert mask_cells([None, 1024, 1024], 8192, 256, 512) == 8192 + 1536
    assert mask_cells([128], 8192, 256, 512) == 768
    assert mask_cells([4096], 1024, 256, 512) == 1024
    assert mask_cells([], 8192, 256, 512) == 0


def test_a_longer_pass_and_a_longer_context_never_take_less() -> None:
    for fused in (True, False):
        base = {"build": "b11549", "fused": fused}
        sizes = [buffer_mib(base | {"context_tokens": 1024 * 2**step}) for step in range(5)]
        assert sizes == sorted(sizes)
        passes = [buffer_mib(base | {"pass_tokens": 64 * 2**step}) for step in range(6)]
        assert passes == sorted(passes)


@pytest.mark.parametrize(
    "build,cells,mib",
    [("b9538", 8192, 116.09), ("b9538", 65536, 352.09), ("b11549", 8192, 124.09), ("b11549", 65536, 360.09)],
)
def test_a_narrow_cache_has_a_layer_of_it_in_16_bits(build: str, cells: int, mib: float) -> None:
    """What builds reserve where the device asks for the room that CUDA's kernels do."""
    row = {"build": build, "fused": True, "context_tokens": cells}

    assert buffer_mib(row, kv_dtype="q8_0") == pytest.approx(mib, rel=1e-3)
    assert buffer_mib(row, kv_dtype="fp16") <= buffer_mib(row, kv_dtype="fp16/q8_0") <= buffer_mib(row, kv_dtype="q8_0")
    assert buffer_mib(row | {"build": "b9470"}, kv_dtype="q8_0") == buffer_mib(row | {"build": "b9470"})
